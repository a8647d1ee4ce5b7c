/**
 * Writes every failed test with its message into the file that EGPU_FAILURES names, so that `npm test` can say at its
 * very end what failed: a log that keeps only its last lines would otherwise hide what an early stage found.
 */
import { appendFileSync } from 'node:fs'

const firstLines = (text) => text.split('\n').slice(0, 12).join('\n    ')

export default class FailureReporter {
  onTestRunEnd(modules, unhandled) {
    const file = process.env.EGPU_FAILURES
    if (file === undefined) return
    const say = (where, errors) => {
      const messages = errors.map((error) => firstLines(`${error.message}\n${error.stack ?? ''}`))
      appendFileSync(file, `${where}\n    ${messages.join('\n    ')}\n`)
    }
    for (const module of modules) {
      if (module.errors().length > 0) say(module.moduleId, module.errors())
      for (const test of module.children.allTests('failed')) {
        say(`${module.moduleId} › ${test.fullName}`, test.result().errors)
      }
    }
    if (unhandled.length > 0) say('outside of any test', unhandled)
  }
}
