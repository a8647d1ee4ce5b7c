import type { Options } from 'tsup'
import { library } from '../../tsup.base.ts'

const config: Options = library({ main: 'src/main.ts' }, { dts: false })

export default config
