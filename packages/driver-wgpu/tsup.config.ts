import type { Options } from 'tsup'
import { library } from '../../tsup.base.ts'

const config: Options = library({ index: 'src/index.ts', 'testing/index': 'src/testing/index.ts' })

export default config
