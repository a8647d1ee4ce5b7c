import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { RegistryValue } from '../registry/value.ts'

/** A registry is some forty levels deep, two elements a level; more than this is damage, not a Mac. */
const maxDepth = 512

const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

/**
 * Reads an XML property list as `ioreg -a` writes it. Unlike the readers on npm it keeps 64-bit integers, as `bigint`:
 * a Thunderbolt UID does not survive as a `number`. Rejects anything it does not understand with
 * `EGPU_MALFORMED_DATA`, naming the byte.
 */
export function parsePlist(text: string): RegistryValue {
  return new Parser(text).document()
}

class Parser {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  document(): RegistryValue {
    if (this.#text.startsWith('bplist')) {
      throw this.#malformed('it is a binary property list; convert it with `plutil -convert xml1` first')
    }
    if (!/^[\s\ufeff]*</.test(this.#text)) {
      throw this.#malformed('it is no XML; `ioreg` prints XML when it is called with `-a`: `ioreg -a -l -i -w0`')
    }
    const root = this.#tag()
    if (root.name !== 'plist' || root.closing) throw this.#malformed(`it starts with <${root.name}>, not <plist>`)
    if (root.empty) throw this.#malformed('the <plist> is empty')
    const value = this.#value(this.#tag(), 0)
    this.#close('plist')
    return value
  }

  #value(tag: Tag, depth: number): RegistryValue {
    if (tag.closing) throw this.#malformed(`</${tag.name}> stands where a value should`)
    if (depth > maxDepth) throw this.#malformed(`it is nested more than ${maxDepth} levels deep`)
    switch (tag.name) {
      case 'dict':
        return tag.empty ? {} : this.#dictionary(depth)
      case 'array':
        return tag.empty ? [] : this.#array(depth)
      case 'true':
      case 'false':
        if (!tag.empty) this.#close(tag.name)
        return tag.name === 'true'
      case 'string':
      case 'date':
        return tag.empty ? '' : this.#content(tag.name)
      case 'integer':
        return this.#integer(tag.empty ? '' : this.#content('integer'))
      case 'real':
        return this.#real(tag.empty ? '' : this.#content('real'))
      case 'data':
        return tag.empty ? new Uint8Array() : this.#data(this.#content('data'))
      default:
        throw this.#malformed(`<${tag.name}> is no element of a property list`)
    }
  }

  #dictionary(depth: number): RegistryValue {
    const entries: [string, RegistryValue][] = []
    for (;;) {
      const tag = this.#tag()
      // `Object.fromEntries` defines properties, so a key called `__proto__` stays a plain key.
      if (tag.closing && tag.name === 'dict') return Object.fromEntries(entries)
      if (tag.closing || tag.name !== 'key') throw this.#malformed(`<${tag.name}> stands where a <key> should`)
      const key = tag.empty ? '' : this.#content('key')
      entries.push([key, this.#value(this.#tag(), depth + 1)])
    }
  }

  #array(depth: number): RegistryValue {
    const values: RegistryValue[] = []
    for (;;) {
      const tag = this.#tag()
      if (tag.closing && tag.name === 'array') return values
      values.push(this.#value(tag, depth + 1))
    }
  }

  #integer(text: string): bigint {
    const match = /^\s*([+-]?)(0[xX][\da-fA-F]{1,16}|\d{1,20})\s*$/.exec(text)
    if (match === null) throw this.#malformed(`"${text.slice(0, 40)}" is no integer`)
    const magnitude = BigInt(match[2] as string)
    // Signed or not, the same 64 bits mean the same number.
    return BigInt.asIntN(64, match[1] === '-' ? -magnitude : magnitude)
  }

  #real(text: string): number {
    const number = text.trim() === '' ? Number.NaN : Number(text)
    if (Number.isNaN(number) && !/^\s*nan\s*$/i.test(text)) {
      throw this.#malformed(`"${text.slice(0, 40)}" is no number`)
    }
    return number
  }

  #data(text: string): Uint8Array {
    if (!/^[A-Za-z\d+/=\s]*$/.test(text)) throw this.#malformed('a <data> is not base64')
    return new Uint8Array(Buffer.from(text, 'base64'))
  }

  /** Text up to the closing tag, which it consumes. */
  #content(name: string): string {
    let content = ''
    for (;;) {
      const open = this.#text.indexOf('<', this.#at)
      if (open === -1) throw this.#malformed(`it ends inside a <${name}>`)
      content += this.#unescape(this.#text.slice(this.#at, open))
      this.#at = open
      if (this.#text.startsWith('<![CDATA[', open)) {
        const end = this.#skipTo(']]>', 'a CDATA section')
        content += this.#text.slice(open + 9, end)
      } else if (this.#text.startsWith('<!--', open)) {
        this.#skipTo('-->', 'a comment')
      } else {
        this.#close(name)
        return content
      }
    }
  }

  #unescape(text: string): string {
    if (!text.includes('&')) return text
    return text.replace(/&(?:#(\d{1,7})|#x([\da-fA-F]{1,6})|(\w{1,8}));/g, (whole, decimal, hex, name) => {
      if (name !== undefined) return entities[name as string] ?? whole
      const code = decimal === undefined ? Number.parseInt(hex as string, 16) : Number(decimal)
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole
    })
  }

  #close(name: string): void {
    const tag = this.#tag()
    if (!tag.closing || tag.name !== name) throw this.#malformed(`</${name}> is missing before <${tag.name}>`)
  }

  /** The next tag; skips white space, comments, the XML declaration and the document type. */
  #tag(): Tag {
    for (;;) {
      while (isSpace(this.#text.charCodeAt(this.#at))) this.#at += 1
      if (this.#at >= this.#text.length) throw this.#malformed('it ends too early')
      if (this.#text.charCodeAt(this.#at) !== 0x3c) throw this.#malformed('there is text between two elements')
      if (this.#text.startsWith('<!--', this.#at)) this.#skipTo('-->', 'a comment')
      else if (this.#text.startsWith('<?', this.#at)) this.#skipTo('?>', 'a declaration')
      else if (this.#text.startsWith('<!', this.#at)) this.#skipTo('>', 'a document type')
      else break
    }
    const end = this.#text.indexOf('>', this.#at)
    if (end === -1) throw this.#malformed('it ends inside a tag')
    const inner = this.#text.slice(this.#at + 1, end)
    const match = /^(\/?)([a-z]+)(?:\s[^<]*?)?(\/?)$/.exec(inner)
    if (match === null) throw this.#malformed(`<${inner.slice(0, 40)}> is no tag`)
    this.#at = end + 1
    return { closing: match[1] === '/', name: match[2] as string, empty: match[3] === '/' }
  }

  #skipTo(mark: string, what: string): number {
    const end = this.#text.indexOf(mark, this.#at)
    if (end === -1) throw this.#malformed(`it ends inside ${what}`)
    this.#at = end + mark.length
    return end
  }

  #malformed(what: string): EGpuError {
    const message = `this property list cannot be read at character ${this.#at}: ${what}`
    return new EGpuError(EGpuErrorCode.MalformedData, message)
  }
}

interface Tag {
  readonly name: string
  readonly closing: boolean
  readonly empty: boolean
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09 || code === 0xfeff
}
