import type { DriverSnapshot } from '@egpu/core/driver'
import { enclosureIdOf } from '../enclosure/enclosures.ts'
import { gpusBehindRouter } from '../survey.ts'
import type { Survey } from '../survey.ts'
import type { RouterView, View } from './state.ts'

/** What the watcher needs of a survey. `seqnum` is the kernel's event counter before it was read. */
export function viewOf(survey: Survey, snapshot: DriverSnapshot, seqnum: number | undefined): View {
  const boxes = survey.topology.thunderbolt.routers.filter(({ isHost }) => !isHost)
  return {
    snapshot,
    devpaths: new Map(survey.gpus.map(({ key, gpu }) => [key, `/${gpu.path}`])),
    routers: new Map(
      boxes.map((router): [string, RouterView] => [
        router.name,
        {
          enclosureId: enclosureIdOf(router),
          devices: gpusBehindRouter(survey, router.name).map(({ key }) => key),
        },
      ]),
    ),
    seqnum,
  }
}
