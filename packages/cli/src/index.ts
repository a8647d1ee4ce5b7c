export { runCli } from './cli.ts'
export { ExitCode } from './exit-code.ts'
export { processTerminal } from './output/terminal.ts'
export type { Terminal } from './output/terminal.ts'
