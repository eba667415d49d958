import { ActionIcon } from "@mantine/core";
import type { Converted } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { Prose } from "@/ui/Prose";
import { Section } from "@/ui/Section";
import css from "./ImportNotes.module.css";

/** What of an imported job could not be carried over; lines are those of the original. */
export function ImportNotes({
  notes,
  onClose,
}: {
  notes: Converted["notes"];
  onClose: () => void;
}) {
  return (
    <Section title="Imported">
      <div className={css.head} role="status">
        {notes.length === 0
          ? "All of it was carried over."
          : "Not all of it could be carried over as it was:"}
        <ActionIcon size="sm" aria-label="Close the notes of the import" onClick={onClose}>
          <Icon name="cross" size={14} />
        </ActionIcon>
      </div>
      <ul className={css.notes}>
        {notes.map((note, number) => (
          <li key={number}>
            {note.line ? <span className={css.line}>line {note.line}</span> : null}
            <Prose text={note.message} />
          </li>
        ))}
      </ul>
    </Section>
  );
}
