import type { FileHandle } from 'node:fs/promises'

export async function readFully(file: FileHandle, into: Uint8Array, offset: number): Promise<void> {
  for (let filled = 0; filled < into.byteLength;) {
    const { bytesRead } = await file.read(into, filled, into.byteLength - filled, offset + filled)
    if (bytesRead === 0) throw new Error('the file got shorter while it was read')
    filled += bytesRead
  }
}

export async function writeFully(file: FileHandle, bytes: Uint8Array, offset: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    done += (await file.write(bytes, done, bytes.byteLength - done, offset + done)).bytesWritten
  }
}
