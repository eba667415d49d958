import { ActionIcon, Button } from "@mantine/core";
import { errorMessage } from "@/api/errors";
import type { LogMatch } from "@/api/types";
import { taskName } from "@/format/names";
import { pluralize } from "@/format/numbers";
import { formatClock } from "@/format/time";
import { Icon } from "@/ui/Icon";
import { plainText } from "./ansi";
import { rankColour } from "./LogLine";
import type { LogSearch } from "./useLogSearch";
import css from "./SearchPanel.module.css";

interface Props {
  search: LogSearch;
  ranks: boolean;
  onOpen: (hit: LogMatch) => void;
}

/** Where the whole log has what is looked for; each hit leads to its place. */
export function SearchPanel({ search, ranks, onOpen }: Props) {
  return (
    <aside className={css.panel} aria-label="Matches in the whole log">
      <header className={css.head}>
        <p role="status">
          <b className="num">{resultText(search)}</b> for <code>{search.needle}</code>
        </p>
        <ActionIcon size="sm" aria-label="Close the matches" onClick={search.close}>
          <Icon name="cross" size={14} />
        </ActionIcon>
      </header>
      <ol className={css.hits}>
        {search.hits.map((hit) => (
          <li key={`${hit.cursor} ${hit.offset}`}>
            <button type="button" className={css.hit} onClick={() => onOpen(hit)}>
              <span className={css.place}>
                {ranks ? (
                  <span style={{ color: rankColour(hit.rank) }}>{taskName(hit)}</span>
                ) : (
                  hit.stream
                )}
                <time className="num">{formatClock(hit.at)}</time>
              </span>
              <span className={css.text}>{highlighted(hit)}</span>
            </button>
          </li>
        ))}
      </ol>
      {search.error ? (
        <p className={css.bad} role="alert">
          {errorMessage(search.error)}
        </p>
      ) : null}
      {search.done ? null : (
        <Button variant="default" className={css.more} loading={search.busy} onClick={search.more}>
          Search on
        </Button>
      )}
    </aside>
  );
}

function resultText({ hits, busy, done }: LogSearch): string {
  const found = pluralize(hits.length, "match", "matches");
  if (busy) return `Searching: ${found}`;
  return done ? found : `First ${found}`;
}

/** What leads up to a match, at most: the match has to be seen. */
const CONTEXT_CHARS = 60;

function highlighted({ text, begin, end }: LogMatch) {
  // The server counts characters, not halves of them as strings do here.
  const letters = [...text];
  const part = (from: number, to?: number) => plainText(letters.slice(from, to).join(""));
  const lead = part(0, begin);
  return (
    <>
      {lead.length > CONTEXT_CHARS ? `…${lead.slice(-CONTEXT_CHARS)}` : lead}
      <mark>{part(begin, end)}</mark>
      {part(end)}
    </>
  );
}
