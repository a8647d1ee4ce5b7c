import type { Finding } from '@egpu/core'
import type { SourceRefusal } from './open-source.ts'
import { UeventSourceKind } from './source.ts'
import type { WatchNote, WatchState, Wedge } from './state.ts'

/** What the last look found, and what no single look can show. */
export function watchFindings({ looked, notes, devices }: WatchState): readonly Finding[] {
  const wedged = [...devices].flatMap(([key, { phase, wedge }]) =>
    phase === 'wedged' && wedge !== undefined ? [wedgedFinding(key, wedge)] : [],
  )
  // What makes it wedged says more than that it is lost.
  const rest = looked.filter(
    ({ code, deviceId }) => code !== 'gpu-lost' || !wedged.some((finding) => finding.deviceId === deviceId),
  )
  return [...rest, ...wedged, ...noteFindings(notes)]
}

function wedgedFinding(key: string, { reason, advice }: Wedge): Finding {
  return { code: 'gpu-wedged', severity: 'error', deviceId: key, seen: `The GPU is wedged: ${reason}.`, advice }
}

/** What the watcher noticed over time. */
function noteFindings(notes: readonly WatchNote[]): readonly Finding[] {
  return notes.map((noted): Finding => {
    const { enclosureId, deviceId } = noted
    switch (noted.code) {
      case 'link-retrained':
        return {
          code: noted.code,
          severity: 'info',
          enclosureId,
          seen: 'The box was gone for less than two seconds and came back: its link was trained again, nobody re-plugged it.',
          advice: 'Nothing to do if it happened once. If it repeats, try another cable or port.',
        }
      case 'enclosure-flapping':
        return {
          code: noted.code,
          severity: 'warning',
          enclosureId,
          seen: `The box has left its cable ${noted.count} times within a minute.`,
          advice: 'Check that cable and box are certified for Thunderbolt or USB4, and that the box has power.',
        }
      case 'pcie-recovery-failed':
        return {
          code: noted.code,
          severity: 'error',
          deviceId,
          seen: 'There was a PCI Express error on the way to the GPU, and the kernel could not recover the GPU from it.',
          advice:
            'If work on it fails, bind its driver again or re-plug it. Errors that repeat point at cable or slot.',
        }
      case 'boot-tunnel-reset':
        return {
          code: noted.code,
          severity: 'info',
          deviceId,
          seen: 'The GPU was there at boot and went when the Thunderbolt driver took down the tunnel of the firmware.',
          advice:
            'It comes back once the box is authorized. To keep the tunnel of the firmware, boot with thunderbolt.host_reset=0.',
        }
    }
  })
}

/** Says which source is in use when it is not the best one. */
export function sourceFindings(kind: UeventSourceKind, refusals: readonly SourceRefusal[]): readonly Finding[] {
  if (kind === UeventSourceKind.Kernel || kind === UeventSourceKind.Injected) return []
  const polling = kind === UeventSourceKind.Poll
  return [
    {
      code: 'event-source-fallback',
      severity: polling ? 'warning' : 'info',
      seen: polling
        ? 'No source of device events works, so the machine is looked at once a second.'
        : `Device events come from ${kind}, not from the kernel directly.`,
      advice:
        'Everything works, later than it could. Install koffi and let the process open NETLINK_KOBJECT_UEVENT sockets.',
      evidence: refusals.map(({ kind: source, reason }) => ({ source, value: reason })),
    },
  ]
}
