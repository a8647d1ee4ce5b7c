import type { Finding } from '@egpu/core'
import type { FindingRule } from './rule.ts'

/** USB-IF's number for Intel: the Thunderbolt alternate mode. */
const thunderboltSvid = 0x8087

/**
 * `usb-only-connection`: what is plugged in could do Thunderbolt, the port could too, and no router came up: the cable
 * carries USB only.
 */
export const usbOnlyConnection: FindingRule = ({ topology: { thunderbolt, typecPorts } }) =>
  thunderbolt.ports.flatMap((port): readonly Finding[] => {
    const host = thunderbolt.routers.find(({ name, isHost }) => isHost && name === port.router)
    const modes = typecPorts.find(({ name }) => name === port.typecPort)?.partner?.alternateModes ?? []
    const mode = modes.find(({ svid }) => svid === thunderboltSvid)
    if (host === undefined || mode === undefined || mode.active === true) return []
    const prefix = `${host.domain}-`
    const taken = [...thunderbolt.routers, ...thunderbolt.peers].some(
      ({ name }) => name.startsWith(prefix) && Number.parseInt(name.slice(prefix.length), 16) % 256 === port.port,
    )
    if (taken) return []
    return [
      {
        code: 'usb-only-connection',
        severity: 'error',
        seen: `What is plugged into ${port.typecPort} can do Thunderbolt, but only USB came up.`,
        advice:
          'Use a cable that is certified for Thunderbolt or USB4 (40 Gb/s), at most 0.8 m if it is a passive one.',
        evidence: [{ source: `class/typec/${port.typecPort}-partner`, value: 'svid 8087, not active' }],
      },
    ]
  })
