"""One eGPU plugged in and pulled, on a machine that umockdev plays.

Runs the program given as arguments inside the testbed, reads a line from it before every step, and prints what it read.
Events reach it through libudev's socket, as they come from a running udevd.
"""

import subprocess
import sys

import gi

gi.require_version("UMockdev", "1.0")
from gi.repository import UMockdev  # noqa: E402

testbed = UMockdev.Testbed.new()


def pci(address, parent, vendor, device, pci_class, driver=None, **attributes):
    values = {
        "vendor": f"0x{vendor}\n",
        "device": f"0x{device}\n",
        "subsystem_vendor": "0x1458\n",
        "subsystem_device": "0x41b6\n",
        "class": f"0x{pci_class}\n",
        "power/runtime_status": "active\n",
        **{name: f"{value}\n" for name, value in attributes.items()},
    }
    properties = {
        "PCI_CLASS": pci_class.lstrip("0").upper(),
        "PCI_ID": f"{vendor}:{device}".upper(),
        "PCI_SUBSYS_ID": "1458:41B6",
        "PCI_SLOT_NAME": address,
        **({"DRIVER": driver} if driver else {}),
    }
    return add("pci", address, parent, values, properties)


def add(subsystem, name, parent, attributes, properties):
    flat = lambda pairs: [item for pair in pairs.items() for item in pair]
    return testbed.add_device(subsystem, name, parent, flat(attributes), flat(properties))


def remove(path):
    testbed.uevent(path, "remove")
    testbed.remove_device(path)


def router(name, parent, uid, device_name, **more):
    attributes = {
        "unique_id": f"{uid}\n",
        "device_name": f"{device_name}\n",
        "vendor_name": "GIGABYTE\n",
        "vendor": "0xed\n",
        "device": "0x41b6\n",
        "authorized": "1\n",
        "generation": "4\n",
        **{key: f"{value}\n" for key, value in more.items()},
    }
    return add("thunderbolt", name, parent, attributes, {"DEVTYPE": "thunderbolt_device"})


port = pci("0000:00:07.0", None, "8086", "7ec4", "060400", "pcieport")
interface = pci("0000:00:0d.2", None, "8086", "7ec2", "0c0340", "thunderbolt")
pci("0000:00:02.0", None, "8086", "7d51", "030000", "i915", boot_vga="1")
domain = add("thunderbolt", "domain0", interface, {"security": "user\n"}, {"DEVTYPE": "thunderbolt_domain"})
host = router("0-0", domain, "11111111-2222-3333-ffff-ffffffffffff", "Gen14")

program = subprocess.Popen(
    [*sys.argv[1:], testbed.get_root_dir() + "/sys"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)


def wait_for(word):
    """Reads on until the program says this; the test on the outside has the deadline."""
    for line in program.stdout:
        print(line, end="", flush=True)
        if word in line:
            return
    sys.exit(f"the program ended before it said {word}")


wait_for("resync")
print("-- box", flush=True)
retimer = add("thunderbolt", "0-0:1.1", host, {}, {"DEVTYPE": "thunderbolt_retimer"})
box = router(
    "0-1", host, "efcdab89-6745-2301-ffff-ffffffffffff", "AORUS BOX",
    rx_speed="20.0 Gb/s", tx_speed="20.0 Gb/s", rx_lanes="2", tx_lanes="2",
)
wait_for("enclosure-observed")
print("-- card", flush=True)
up = pci("0000:02:00.0", port, "8086", "5786", "060400", "pcieport", removable="removable")
down = pci("0000:03:00.0", up, "8086", "5786", "060400", "pcieport", removable="removable")
gpu = pci("0000:04:00.0", down, "10de", "2b85", "030000", "nouveau", removable="removable")
sound = pci("0000:04:00.1", down, "10de", "22e8", "040300", "snd_hda_intel", removable="removable")
card = add("drm", "drm/card1", gpu, {}, {"DEVTYPE": "drm_minor", "DEVNAME": "/dev/dri/card1"})
wait_for("ready")
print("-- pulled", flush=True)
remove(retimer)
remove(box)
wait_for("enclosure-removed")
print("-- taken down", flush=True)
for path in [card, sound, gpu, down, up]:
    remove(path)
wait_for("device-removed")
program.stdin.close()
program.wait(20)
