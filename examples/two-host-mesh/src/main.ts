import { twoHosts } from './two-hosts.ts'

console.log(`${await twoHosts(400_000, console.log)} primes up to 400000`)
