/**
 * Asks `egpu` itself what may come next. Words are handed over as they stand: what a person has typed so far is never
 * evaluated. Needs nothing but bash, the 3.2 of a Mac included; file names where egpu knows nothing.
 */
export const bashCompletion: string = String.raw`# bash completion for egpu
_egpu() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    line=${"${line%%$'\\t'*}"}
    # The last line is a number for other shells.
    [[ $line == :* || $line != "$2"* ]] || COMPREPLY+=("$line")
  done < <(egpu complete -- "${'${COMP_WORDS[@]:1:COMP_CWORD}'}" 2>/dev/null)
}
complete -o default -F _egpu egpu`
