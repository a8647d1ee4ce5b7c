/** Ours have fewer values: the least that is ever written, a part with a name of one letter and no byte, takes more for each. */
const leastBytesPerValue = 7
const fewValues = 64

const quote = 0x22
const backslash = 0x5c
/** Each value but the first comes after one of these; of the two brackets only the opening one counts. */
const comma = 0x2c
const bracket = 0x5b
const brace = 0x7b

/**
 * Parses JSON that others may have written. `{}` takes three bytes of text and fifty of memory, so text that is made of
 * little else is refused before it is parsed. Throws a `SyntaxError` for what is no JSON and a `RangeError` for that.
 */
export function parseForeign(text: Uint8Array): unknown {
  const most = fewValues + text.byteLength / leastBytesPerValue
  let values = 0
  let isText = false
  for (let at = 0; at < text.byteLength; at += 1) {
    const byte = text[at]
    if (isText && byte === backslash) at += 1
    else if (byte === quote) isText = !isText
    else if (!isText && (byte === comma || byte === bracket || byte === brace)) values += 1
  }
  if (values > most)
    throw new RangeError(`${values} values in ${text.byteLength} bytes are no description of a checkpoint`)
  return JSON.parse(new TextDecoder().decode(text))
}
