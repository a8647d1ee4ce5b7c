import type { EGpuDevice } from '@egpu/core'
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EjectLine, EjectPlan } from '../protocol.ts'
import { deviceTitle } from './words.ts'

interface EjectDialogProps {
  readonly device: EGpuDevice
  readonly onClose: () => void
}

/** Shows what an eject would do, and does it when told to. */
export function EjectDialog({ device, onClose }: EjectDialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  const [plan, setPlan] = useState<EjectPlan>()
  const [failure, setFailure] = useState<string>()
  const [lines, setLines] = useState<readonly EjectLine[]>([])
  const [running, setRunning] = useState(false)
  const path = `/api/devices/${encodeURIComponent(device.id)}`

  useEffect(() => {
    dialog.current?.showModal()
    void ask(`${path}/plan`, 'GET')
      .then(async (answer) => setPlan((await answer.json()) as EjectPlan))
      .catch((error: unknown) => setFailure(String(error)))
  }, [path])

  const eject = async (): Promise<void> => {
    setRunning(true)
    try {
      const answer = await ask(`${path}/eject`, 'POST')
      for await (const line of jsonLines(answer)) setLines((before) => [...before, line])
    } catch (error) {
      setFailure(String(error))
    }
    setRunning(false)
  }

  const end = lines.find((line) => 'safeToUnplug' in line)
  return (
    <dialog ref={dialog} aria-labelledby="eject-title" onClose={onClose}>
      <h3 id="eject-title">Eject {deviceTitle(device)}</h3>
      {plan === undefined && failure === undefined && <p>Making the plan…</p>}
      {plan !== undefined && lines.length === 0 && <Plan plan={plan} />}
      <ul class="steps" aria-live="polite">
        {lines.map((line, index) => (
          <li key={index}>{'step' in line ? `${line.status}: ${line.step}` : <Ending line={line} />}</li>
        ))}
      </ul>
      {failure !== undefined && <p role="alert">{failure}</p>}
      <div class="controls">
        {end === undefined && (
          <button
            type="button"
            class="primary"
            disabled={plan === undefined || running || !isPossible(plan)}
            onClick={() => void eject()}
          >
            {running ? 'Ejecting…' : 'Eject'}
          </button>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          {end === undefined ? 'Leave it connected' : 'Close'}
        </button>
      </div>
    </dialog>
  )
}

function isPossible({ removal, programs }: EjectPlan): boolean {
  return removal.refusals.length === 0 && !programs.some(({ stays }) => stays)
}

function Plan({ plan: { guests, removal, programs } }: { readonly plan: EjectPlan }): JSX.Element {
  return (
    <>
      <ol>
        {guests.map((guest) => (
          <li key={guest}>{guest} moves its work elsewhere</li>
        ))}
        {programs.map(({ text, stays }) => (
          <li key={text} class={stays ? 'warn' : undefined}>
            {text}
          </li>
        ))}
        {removal.steps.map(({ title, command }) => (
          <li key={title}>
            {title}
            {command !== undefined && <code>{command}</code>}
          </li>
        ))}
      </ol>
      <ul>
        {removal.holders.map(({ pid, name, holds }) => (
          <li key={pid} class="warn">
            {name ?? 'a process'} (pid {pid}) holds {holds}
          </li>
        ))}
        {removal.refusals.map((refusal) => (
          <li key={refusal} class="warn">
            {refusal}
          </li>
        ))}
        {removal.notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </>
  )
}

function Ending({ line }: { readonly line: Extract<EjectLine, { safeToUnplug: boolean }> }): JSX.Element {
  return (
    <>
      <strong class={line.safeToUnplug ? 'good' : 'warn'}>{line.text}</strong>
      {line.details.map((detail) => (
        <p key={detail}>{detail}</p>
      ))}
    </>
  )
}

async function ask(path: string, method: string): Promise<Response> {
  const answer = await fetch(path, { method })
  if (answer.ok) return answer
  const text = await answer.text()
  let message = text
  try {
    message = (JSON.parse(text) as { message: string }).message
  } catch {
    // Not JSON: the text itself says it.
  }
  throw new Error(message)
}

async function* jsonLines(answer: Response): AsyncGenerator<EjectLine> {
  let rest = ''
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    const lines = `${rest}${read.value}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as EjectLine
  }
}
