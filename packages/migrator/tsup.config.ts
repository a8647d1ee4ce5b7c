import type { Options } from 'tsup'
import { library } from '../../tsup.base.ts'

const config: Options = library({
  index: 'src/index.ts',
  'node/index': 'src/node/index.ts',
  'node/survive-child': 'src/node/survive/child.ts',
})

export default config
