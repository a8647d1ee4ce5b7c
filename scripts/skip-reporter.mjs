/**
 * Names every skipped test with its reason. In CI a skip is a failure, unless its reason begins with one of these words.
 */
const excused = [
  // A machine that no CI has.
  'hardware:',
  // The compliance suite: a rule about a capability that this driver does not have.
  'does not apply to this rig:',
]

export default class SkipReporter {
  onTestRunEnd(modules) {
    const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')])
    let unexcused = 0
    for (const test of skipped) {
      const reason = test.result().note ?? 'no reason given'
      if (!excused.some((beginning) => reason.startsWith(beginning))) unexcused += 1
      console.log(`skipped: ${test.module.project.name} › ${test.fullName} (${reason})`)
    }
    if (unexcused > 0 && process.env.CI) {
      console.error(`${unexcused} test(s) were skipped, which CI does not accept`)
      process.exitCode = 1
    }
  }
}
