interface PciAddress {
  readonly domain: string
  readonly bus: string
  readonly slot: string
  readonly fn: string
}

/**
 * Arguments for `qemu-system-x86_64` with the q35 machine: the functions of one card on one root port of the guest, as
 * they are on the host, because drivers look for the sound function next to the GPU.
 */
export function qemuArgumentsOf(addresses: readonly string[]): readonly string[] {
  const devices = addresses.map((address, index) => {
    const first = index === 0 && addresses.length > 1 ? ',multifunction=on' : ''
    return `vfio-pci,host=${address},bus=egpu,addr=00.${parse(address).fn}${first}`
  })
  return ['pcie-root-port,id=egpu,chassis=40,slot=40', ...devices].flatMap((device) => ['-device', device])
}

/** `<hostdev>` elements for libvirt, which leaves drivers alone (`managed='no'`): the plan has bound them already. */
export function libvirtXmlOf(addresses: readonly string[]): string {
  const elements = addresses.map((address, index) => {
    const { domain, bus, slot, fn } = parse(address)
    const together = index === 0 && addresses.length > 1 ? " multifunction='on'" : ''
    return [
      "<hostdev mode='subsystem' type='pci' managed='no'>",
      "  <driver name='vfio'/>",
      '  <source>',
      `    <address domain='0x${domain}' bus='0x${bus}' slot='0x${slot}' function='0x${fn}'/>`,
      '  </source>',
      `  <address type='pci' domain='0x0000' bus='0x28' slot='0x00' function='0x${fn}'${together}/>`,
      '</hostdev>',
    ].join('\n')
  })
  return `${elements.join('\n')}\n`
}

function parse(address: string): PciAddress {
  const [domain = '', bus = '', slot = '', fn = ''] = address.split(/[:.]/)
  return { domain, bus, slot, fn }
}
