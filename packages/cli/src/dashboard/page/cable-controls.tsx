import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { CableAction, CableView } from '../protocol.ts'

/** The hands on a simulated cable; nothing on a real machine. */
export function CableControls({ cable }: { readonly cable: CableView | undefined }): JSX.Element | null {
  const [failure, setFailure] = useState<string>()
  if (cable === undefined) return null
  const act = async (action: CableAction): Promise<void> => {
    const answer = await fetch(`/api/cables/${encodeURIComponent(cable.id)}/${action}`, { method: 'POST' }).catch(
      () => undefined,
    )
    setFailure(answer?.ok === true ? undefined : ((await answer?.text()) ?? 'the dashboard does not answer'))
  }
  const button = (action: CableAction, text: string): JSX.Element => (
    <button key={action} type="button" onClick={() => void act(action)} aria-label={`${text}: ${cable.name}`}>
      {text}
    </button>
  )
  return (
    <div class="controls">
      {cable.plugged
        ? [
            button('pull', 'Pull the cable'),
            cable.slowed ? button('restore', 'Full speed') : button('slow', 'Slow it down'),
            button('heat', 'Overheat'),
          ]
        : button('plug', 'Plug it in')}
      {failure !== undefined && <span role="alert">{failure}</span>}
    </div>
  )
}
