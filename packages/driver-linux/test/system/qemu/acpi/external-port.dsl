/* Makes QEMU's q35 root port 00:02.0 (\_SB.PCI0.S10) the tunnelled, external facing port of a USB4 host, as firmware of
   real machines does (Linux: Documentation/admin-guide/acpi, drivers/thunderbolt/acpi.c). The host interface is only a
   name: no such PCI device has to exist. Slot numbers of \_SB.PCI0.Sxx are QEMU's devfn in hexadecimal. */
DefinitionBlock ("", "SSDT", 2, "EGPU", "EXTPORT", 0x00000001)
{
    External (\_SB.PCI0, DeviceObj)
    External (\_SB.PCI0.S10, DeviceObj)
    Scope (\_SB.PCI0)
    {
        Device (NHI0) { Name (_ADR, 0x00050000) }
    }
    Scope (\_SB.PCI0.S10)
    {
        Name (_DSD, Package ()
        {
            ToUUID ("6211e2c0-58a3-4af3-90e1-927a4e0c55a4"),
            Package () { Package () { "HotPlugSupportInD3", 1 } },
            ToUUID ("efcc06cc-73ac-4bc3-bff0-76143807c389"),
            Package () { Package () { "ExternalFacingPort", 1 }, Package () { "UID", 0 } },
            ToUUID ("daffd814-6eba-4d8c-8a91-bc9bbf4aa301"),
            Package () { Package () { "usb4-host-interface", \_SB.PCI0.NHI0 }, Package () { "usb4-port-number", 0 } }
        })
    }
}
