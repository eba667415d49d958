import { ActionIcon, Button } from "@mantine/core";
import { explain } from "@/api/errors";
import type { LogMatch } from "@/api/types";
import { taskName } from "@/format/names";
import { count } from "@/format/size";
import { clock } from "@/format/time";
import { Icon } from "@/ui/Icon";
import { plainText } from "./ansi";
import { rankColour } from "./ranks";
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
          <b className="num">{words(search)}</b> for <code>{search.needle}</code>
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
                <time className="num">{clock(hit.at)}</time>
              </span>
              <span className={css.text}>{marked(hit)}</span>
            </button>
          </li>
        ))}
      </ol>
      {search.error ? (
        <p className={css.bad} role="alert">
          {explain(search.error)}
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

function words({ hits, busy, done }: LogSearch): string {
  const found = count(hits.length, "match", "matches");
  if (busy) return `Searching: ${found}`;
  return done ? found : `First ${found}`;
}

/** What leads up to a match, at most: the match has to be seen. */
const LEAD = 60;

function marked({ text, begin, end }: LogMatch) {
  // The server counts characters, not halves of them as strings do here.
  const letters = [...text];
  const part = (from: number, to?: number) => plainText(letters.slice(from, to).join(""));
  const lead = part(0, begin);
  return (
    <>
      {lead.length > LEAD ? `…${lead.slice(-LEAD)}` : lead}
      <mark>{part(begin, end)}</mark>
      {part(end)}
    </>
  );
}
