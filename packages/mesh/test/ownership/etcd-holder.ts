/** Has an etcd of three members and a host in a namespace, says so, and waits to be killed. */
import { EtcdCluster } from '../helpers/etcd.ts'
import { Network } from '../helpers/namespaces.ts'

await EtcdCluster.onLoopback()
const network = await Network.create({ hosts: ['a'] })
network.spawn('a', 'sleep', ['infinity'])
process.send?.('ready')
