import { ActionIcon } from "@mantine/core";
import { explain, isApiError } from "@/api/errors";
import type { Chain } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { PathList } from "./PathList";
import { TouchedJobs } from "./TouchedJobs";
import { Verdict } from "./Verdict";
import type { Checked } from "./useCheck";
import type { Editor } from "./useEditor";
import { changeWords } from "./words";
import css from "./SidePanel.module.css";

interface Props {
  chains: Chain[];
  editor: Editor;
  check: Checked;
  refusal: unknown;
}

/** What the changes are, whether they fit, and who would notice. */
export function SidePanel({ chains, editor, check, refusal }: Props) {
  const changed = editor.changes.length > 0;
  return (
    <aside className={css.side} aria-label="These changes">
      <Verdict chains={chains} check={check} changed={changed} />
      {refusal && !isApiError(refusal, 409) ? (
        <Section title="Not saved">
          <p className={css.bad} role="alert">
            {explain(refusal)}
          </p>
        </Section>
      ) : null}
      <Changes chains={chains} editor={editor} />
      {check.result && changed ? <TouchedJobs check={check.result} /> : null}
      {check.result && check.result.problems.length > 0 ? (
        <Section title={`${count(check.result.problems.length, "oddity", "oddities")} of nodes`}>
          <p className="dim">Nothing is refused for these.</p>
          <PathList label="Oddities" items={check.result.problems} />
        </Section>
      ) : null}
    </aside>
  );
}

function Changes({ chains, editor }: Pick<Props, "chains" | "editor">) {
  const { changes } = editor;
  if (changes.length === 0) {
    return (
      <Section title="Changes">
        <p className="dim">
          None yet. Every change is checked at once and nothing happens before you save; saving
          moves and ends no job.
        </p>
      </Section>
    );
  }
  return (
    <Section title={count(changes.length, "change")}>
      <ul className={css.changes}>
        {changes.map((change) => {
          const { who, what, how } = changeWords(chains, change);
          return (
            <li key={change.key}>
              <span>
                <b>{who}</b> {what}
              </span>
              <span className={css.how}>{how}</span>
              <ActionIcon
                size="sm"
                aria-label={`Take back: ${who} ${what} ${how}`}
                onClick={() => editor.dispatch({ do: "revert", change })}
              >
                <Icon name="undo" size={13} />
              </ActionIcon>
            </li>
          );
        })}
      </ul>
    </Section>
  );
}
