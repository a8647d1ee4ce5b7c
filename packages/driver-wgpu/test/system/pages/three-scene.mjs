/**
 * A scene of three.js as anybody would write it: particles moved by a compute shader, drawn with a lit mesh, to the
 * canvas and to a render target. It is handed a device and knows nothing else.
 */
import * as THREE from 'three/webgpu'
import { Fn, float, instancedArray, instanceIndex, sin, vec3 } from 'three/tsl'
import { protectDevice, protectionOf } from '@egpu/driver-wgpu'

const size = 96
const frames = 8
const count = 256

async function makeDevice(kind, events) {
  if (kind === 'protected') {
    return protectDevice({
      checkpoint: { intervalMs: 100 },
      backoffMs: [0, 100],
      onEvent: (event) => events.push({ ...event, error: event.error?.message }),
    })
  }
  const adapter = await navigator.gpu.requestAdapter()
  return adapter.requestDevice()
}

async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return [...hash].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

globalThis.runScene = async (kind, antialias, crashAt) => {
  const events = []
  const device = await makeDevice(kind, events)
  const canvas = document.querySelector('canvas')
  const renderer = new THREE.WebGPURenderer({ canvas, device, antialias })
  await renderer.init()
  renderer.setSize(size, size, false)
  const scene = new THREE.Scene()
  const camera = new THREE.PerspectiveCamera(50, 1, 0.1, 100)
  camera.position.z = 6
  scene.add(new THREE.HemisphereLight(0xffffff, 0x224466, 2))
  const mesh = new THREE.Mesh(
    new THREE.TorusKnotGeometry(1, 0.3, 64, 8),
    new THREE.MeshStandardNodeMaterial({ color: 0xff8844, roughness: 0.6 }),
  )
  scene.add(mesh)
  const positions = instancedArray(count, 'vec3')
  const move = Fn(() => {
    const position = positions.element(instanceIndex)
    const index = float(instanceIndex)
    position.addAssign(vec3(sin(index.mul(0.37)), sin(index.mul(0.73)), sin(index.mul(1.19))).mul(0.07))
  })().compute(count)
  const particles = new THREE.Sprite(new THREE.SpriteNodeMaterial({ color: 0x66ccff }))
  particles.material.positionNode = positions.toAttribute()
  particles.material.scaleNode = float(0.05)
  particles.count = count
  scene.add(particles)
  const target = new THREE.RenderTarget(size, size, { samples: antialias ? 4 : 0 })

  const hashes = []
  for (let frame = 0; frame < frames; frame += 1) {
    mesh.rotation.set(frame * 0.1, frame * 0.2, 0)
    await renderer.computeAsync(move)
    renderer.setRenderTarget(target)
    renderer.render(scene, camera)
    if (frame % 2 === 1) {
      const pixels = await renderer.readRenderTargetPixelsAsync(target, 0, 0, size, size)
      hashes.push(await digest(pixels))
    }
    renderer.setRenderTarget(null)
    renderer.render(scene, camera)
    if (frame === crashAt) await globalThis.crashGpuProcess()
    await new Promise((resolve) => requestAnimationFrame(resolve))
  }
  const moved = await renderer.getArrayBufferAsync(positions.value)
  hashes.push(await digest(moved))
  const stats = kind === 'protected' ? { ...protectionOf(device).stats } : undefined
  device.destroy()
  return { hashes, events, stats }
}
