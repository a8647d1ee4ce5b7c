/**
 * One heat capacity behind one thermal resistance (Newton's law of cooling): enough for temperatures that rise under
 * load, settle, fall when idle, and climb past the limit when a fan stops. Read lazily, so an idle machine costs nothing.
 */
export class Thermal {
  #celsius: number
  #atMs: number
  #watts: number
  #fan = 1
  readonly #ambientCelsius: number

  constructor(nowMs: number, ambientCelsius: number, idleWatts: number) {
    this.#atMs = nowMs
    this.#ambientCelsius = ambientCelsius
    this.#watts = idleWatts
    this.#celsius = this.#settlesAt()
  }

  celsius(nowMs: number): number {
    const settlesAt = this.#settlesAt()
    const elapsed = Math.max(0, nowMs - this.#atMs)
    return settlesAt + (this.#celsius - settlesAt) * Math.exp(-elapsed / (timeConstantMs / this.#fan))
  }

  get watts(): number {
    return this.#watts
  }

  draw(watts: number, nowMs: number): void {
    this.#fold(nowMs)
    this.#watts = watts
  }

  /** Sets the temperature; it drifts back from there. */
  set(celsius: number, nowMs: number): void {
    this.#atMs = nowMs
    this.#celsius = celsius
  }

  /** 1 cools as designed; 0.2 is a stopped fan: the heat sink alone. */
  cooling(fan: number, nowMs: number): void {
    this.#fold(nowMs)
    this.#fan = fan
  }

  #fold(nowMs: number): void {
    this.#celsius = this.celsius(nowMs)
    this.#atMs = nowMs
  }

  #settlesAt(): number {
    return this.#ambientCelsius + (this.#watts * kelvinPerWatt) / this.#fan
  }
}

/** A 250 W card settles 45 K above the room, as desktop cards with open coolers do. */
const kelvinPerWatt = 0.18

/** A desktop card takes about a minute to get two thirds of the way. */
const timeConstantMs = 60_000
