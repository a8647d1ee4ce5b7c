import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { macosDriver, plistSource } from '../src/index.ts'
import { parsePlist } from '../src/plist/parse.ts'
import { mutate, random, smallDump } from './mutate.ts'

const plist = (body: string): string => `<?xml version="1.0"?><plist version="1.0">${body}</plist>`

describe('parsePlist', () => {
  it('keeps 64-bit integers, signed or not, decimal or hexadecimal', () => {
    const values = ['-9185171858847104256', '9261572214862447360', '0x8087B6DC08810300', '+7', ' 12 ', '-0x10']
    const numbers = parsePlist(plist(`<array>${values.map((one) => `<integer>${one}</integer>`).join('')}</array>`))
    expect(numbers).toEqual([-9185171858847104256n, -9185171858847104256n, -9185171858847104256n, 7n, 12n, -16n])
  })

  it('reads entities, CDATA, comments, dates, empty elements and white space', () => {
    const text = '<string>a &lt;&#65;&#x42;&amp;&quot;&apos;&nosuch; <!-- no --><![CDATA[<raw>]]></string>'
    expect(
      parsePlist(plist(`<!-- c --><dict>\n<key>t</key>${text}<key/><string/><key>d</key><date>2026</date></dict>`)),
    ).toEqual({
      t: `a <AB&"'&nosuch; <raw>`,
      '': '',
      d: '2026',
    })
  })

  it('reads data with white space in it', () => {
    expect(parsePlist(plist('<data>\n\t3hAA\n\tAA==\n</data>'))).toEqual(new Uint8Array([0xde, 0x10, 0, 0]))
  })

  it('takes a key for a key, whatever it is called', () => {
    const value = parsePlist(plist('<dict><key>__proto__</key><dict><key>x</key><true/></dict></dict>'))
    expect(Object.keys(value as object)).toEqual(['__proto__'])
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  })

  const broken: Readonly<Record<string, string>> = {
    nothing: '',
    'white space': ' \n',
    'something else': 'Root  <class IORegistryEntry>',
    JSON: '{"a":1}',
    'a binary property list': 'bplist00\u0001',
    'another document': '<html></html>',
    'an empty property list': '<plist/>',
    'a list that ends early': '<plist><dict><key>a</key>',
    'a tag that ends early': '<plist><dict',
    'a string that ends early': '<plist><string>abc',
    'a comment that ends early': '<plist><!-- abc',
    'tags that cross': plist('<dict><key>a</key><string>x</dict></string>'),
    'a value without key': plist('<dict><string>x</string></dict>'),
    'a key without value': plist('<dict><key>a</key></dict>'),
    'an unknown element': plist('<set/>'),
    'text between elements': plist('<array>x</array>'),
    'an integer that is none': plist('<integer>12a</integer>'),
    'an integer that is empty': plist('<integer/>'),
    'an integer of 25 digits': plist('<integer>1234567890123456789012345</integer>'),
    'a real that is none': plist('<real>x</real>'),
    'data that is not base64': plist('<data>!!</data>'),
    'nesting without end': `<plist>${'<array>'.repeat(100_000)}`,
  }
  for (const [name, text] of Object.entries(broken)) {
    it(`refuses ${name} with EGPU_MALFORMED_DATA`, () => {
      expect(() => parsePlist(text)).toThrowError(expect.objectContaining({ code: EGpuErrorCode.MalformedData }))
    })
  }
})

describe('plistSource', () => {
  it('refuses more bytes than a string can hold, as damage', async () => {
    await using source = plistSource(new Uint8Array(2 ** 29))
    expect(await source.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/536870912 bytes/) })
    await expect(source.open()).rejects.toMatchObject({ code: EGpuErrorCode.MalformedData })
  })

  it('tells who printed text instead of XML how to print XML', async () => {
    for (const text of ['+-o Root  <class IORegistryEntry, id 0x100000100>', '\u001f\ufffd\b', '{"a":1}']) {
      await using source = plistSource(text)
      await expect(source.open()).rejects.toThrow(/ioreg -a -l -i -w0/)
    }
  })

  it('says in probe() and list() what is wrong with a dump', async () => {
    await using driver = macosDriver({ source: plistSource(smallDump().slice(0, 2000)) })
    expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringMatching(/cannot be read at/) })
    await expect(driver.list()).rejects.toMatchObject({ code: EGpuErrorCode.MalformedData })
  })

  it('refuses a property list that is no registry, and says how to make one', async () => {
    await using source = plistSource(plist('<dict><key>a</key><true/></dict>'))
    await expect(source.open()).rejects.toThrow(/ioreg -a -l -i/)
  })

  it('takes bytes as well as text, with a byte order mark or without', async () => {
    const text = smallDump()
    const utf16 = Buffer.from(`\ufeff${text}`, 'utf16le')
    for (const dump of [text, Buffer.from(text), Buffer.from(`\ufeff${text}`), `\ufeff${text}`, utf16]) {
      await using driver = macosDriver({ source: plistSource(dump) })
      expect((await driver.list()).devices).toHaveLength(2)
    }
  })

  it('refuses what is no dump at all as a wrong argument', () => {
    expect(() => plistSource(undefined as unknown as string)).toThrow(TypeError)
  })

  it('reads a top-level array (`ioreg -r`) and parents whose child is one dictionary (`ioreg -t`)', async () => {
    const text = smallDump()
    const body = text.slice(text.indexOf('<dict>'), text.lastIndexOf('</plist>'))
    const above = `<dict><key>IORegistryEntryID</key><integer>1</integer><key>IORegistryEntryChildren</key>${body}</dict>`
    for (const variant of [plist(`<array>${body}</array>`), plist(above), plist(`<array><string/>${body}</array>`)]) {
      await using driver = macosDriver({ source: plistSource(variant) })
      expect((await driver.list()).devices).toHaveLength(2)
    }
  })

  it('counts an entry that stands below two parents once', async () => {
    const text = smallDump()
    const body = text.slice(text.indexOf('<dict>'), text.lastIndexOf('</plist>'))
    await using driver = macosDriver({ source: plistSource(plist(`<array>${body}${body}</array>`)) })
    expect((await driver.list()).devices).toHaveLength(2)
  })
})

describe('damaged dumps', () => {
  // `bench/macos/mutated-dumps.ts` tries 100,000.
  it('give an answer or EGPU_MALFORMED_DATA, and nothing else', async () => {
    const dump = smallDump()
    const outcomes = { read: 0, refused: 0 }
    for (let seed = 1; seed <= 3000; seed += 1) {
      const damaged = mutate(dump, random(seed))
      await using driver = macosDriver({ source: plistSource(damaged) })
      try {
        const { devices } = await driver.list()
        expect(new Set(devices.map((device) => device.key)).size).toBe(devices.length)
        outcomes.read += 1
      } catch (error) {
        if (!EGpuError.is(error, EGpuErrorCode.MalformedData)) throw new Error(`seed ${seed}`, { cause: error })
        outcomes.refused += 1
      }
    }
    // Both happen, so the mutations reach the parser and what is behind it.
    expect(Math.min(outcomes.read, outcomes.refused)).toBeGreaterThan(300)
  })
})
