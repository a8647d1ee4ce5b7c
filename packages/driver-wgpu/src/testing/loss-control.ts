import { closeSync, openSync, readSync, writeSync } from 'node:fs'

/** A kind of Vulkan call that the loss layer counts and can lose the device at. */
export type LossPoint = 'submit' | 'fence' | 'map'

const points: readonly LossPoint[] = ['submit', 'fence', 'map']

/** `enum word` of native/loss-layer.c. */
const Word = {
  Lost: 0,
  Hidden: 1,
  HideOnLoss: 2,
  Losses: 3,
  LiveDevices: 4,
  Count: 5,
  Armed: 8,
  Told: 11,
  Poison: 14,
} as const
const words = 15

/**
 * The hands on the loss layer: takes the device away now or at a chosen call, hides it, brings it back. Works on the
 * file that the layer has mapped, so every change counts from the very next Vulkan call on.
 */
export class LossControl implements Disposable {
  readonly path: string
  readonly #file: number
  readonly #word = new Uint32Array(1)
  #open = true

  /** Makes a new control file; its path goes into `EGPU_LOSS_CONTROL` before Vulkan is loaded. */
  constructor(path: string) {
    this.path = path
    this.#file = openSync(path, 'w+')
    writeSync(this.#file, new Uint8Array(words * 4))
  }

  /** Every device is lost at its next call, and every new one too, until `heal()`. */
  lose(options: { readonly hide?: boolean } = {}): void {
    if (options.hide === true) this.#write(Word.Hidden, 1)
    this.#write(Word.Lost, 1)
  }

  /** The device that makes the `nth` call from now on (1 is the next) is lost at that call; later ones are not. */
  loseAt(point: LossPoint, nth: number, options: { readonly hide?: boolean } = {}): void {
    if (!Number.isInteger(nth) || nth < 1) throw new TypeError(`nth must be an integer from 1 up, not ${nth}`)
    this.#write(Word.HideOnLoss, options.hide === true ? 1 : 0)
    const index = points.indexOf(point)
    this.#write(Word.Armed + index, this.#read(Word.Count + index) + nth)
  }

  /** Work with a dispatch of `workgroups` in x takes down every device it is given to, as a job that hangs a GPU does. */
  poison(workgroups: number): void {
    this.#write(Word.Poison, workgroups)
  }

  /** Physical devices are there again and new devices live. Devices that were lost stay lost. */
  heal(): void {
    for (const word of [Word.Lost, Word.Hidden, Word.HideOnLoss, Word.Poison]) this.#write(word, 0)
    for (const index of points.keys()) this.#write(Word.Armed + index, 0)
  }

  /** Takes the device out of look-ups without losing the ones that are open. */
  hide(): void {
    this.#write(Word.Hidden, 1)
  }

  /** Calls of one kind since the file was made, by all processes that share it. */
  count(point: LossPoint): number {
    return this.#read(Word.Count + points.indexOf(point))
  }

  /** Calls of one kind that were answered with the loss. */
  told(point: LossPoint): number {
    return this.#read(Word.Told + points.indexOf(point))
  }

  /** Devices lost so far. */
  get losses(): number {
    return this.#read(Word.Losses)
  }

  /** Vulkan devices that exist now: what is left of them after a test is a leak. */
  get liveDevices(): number {
    return this.#read(Word.LiveDevices)
  }

  /** A process that ended took its devices with it without destroying them: stop counting those. */
  forgetDevices(): void {
    this.#write(Word.LiveDevices, 0)
  }

  [Symbol.dispose](): void {
    if (this.#open) closeSync(this.#file)
    this.#open = false
  }

  #read(word: number): number {
    readSync(this.#file, this.#word, 0, 4, word * 4)
    return this.#word[0] as number
  }

  #write(word: number, value: number): void {
    this.#word[0] = value
    writeSync(this.#file, this.#word, 0, 4, word * 4)
  }
}
