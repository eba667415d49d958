import { ActionIcon, Button, Select } from "@mantine/core";
import { useState } from "react";
import type { Chain } from "@/api/types";
import { cellTypeLabel } from "@/features/cells/levels";
import { Icon } from "@/ui/Icon";
import type { Pin } from "./draft";
import { NewPinDialog } from "./NewPinDialog";
import { elementId, type FieldErrors } from "./fieldErrors";
import type { EditorHandle } from "./useAssignmentEditor";
import section from "./ModelSection.module.css";
import css from "./PinnedCells.module.css";

interface Props {
  chains: Chain[];
  editor: EditorHandle;
  problems: FieldErrors;
}

/** Cells with a name and a fixed place, and whose they are. */
export function PinnedCells({ chains, editor, problems }: Props) {
  const [adding, setAdding] = useState(false);
  const pins = Object.values(editor.draft.pins).sort((a, b) => a.name.localeCompare(b.name));
  return (
    <section className={section.section} aria-label="Pinned cells">
      <header className={css.head}>
        <h2 className={section.title}>Pinned cells</h2>
        <Button
          variant="subtle"
          color="gray"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => setAdding(true)}
        >
          Pin a cell
        </Button>
      </header>
      {pins.length === 0 ? (
        <p className={section.note}>
          A pinned cell has a name and is always the same hardware. Its owner’s jobs ask for it by
          that name.
        </p>
      ) : (
        <ul className={css.pins}>
          {pins.map((pin) => (
            <PinRow key={pin.name} pin={pin} chains={chains} editor={editor} problems={problems} />
          ))}
        </ul>
      )}
      <NewPinDialog
        key={String(adding)}
        open={adding}
        chains={chains}
        vcs={editor.draft.vcs}
        taken={pins.map((pin) => pin.name)}
        onClose={() => setAdding(false)}
        onAdd={(pin) => editor.dispatch({ do: "pin", name: pin.name, pin })}
      />
    </section>
  );
}

function PinRow({ pin, chains, editor, problems }: Props & { pin: Pin }) {
  const id = elementId({ at: "pin", name: pin.name });
  const wrong = problems.get(id);
  const before = editor.base.pins[pin.name];
  const set = (next: Pin | null) => editor.dispatch({ do: "pin", name: pin.name, pin: next });
  return (
    <li className={css.pin} data-changed={before?.vc !== pin.vc || undefined}>
      <Icon name="pin" size={14} />
      <b className={css.name}>{pin.name}</b>
      <span>{cellTypeLabel(chains, pin.cell_type)}</span>
      <span className="dim">
        on {pin.node}
        {pin.device ? <code> {pin.device}</code> : null}
      </span>
      <Select
        id={id}
        aria-label={`${pin.name} belongs to`}
        placeholder="No owner"
        data={editor.draft.vcs}
        value={pin.vc || null}
        onChange={(vc) => set({ ...pin, vc: vc ?? "" })}
        error={wrong !== undefined}
        clearable
        className={css.vc}
      />
      <ActionIcon size="sm" aria-label={`Unpin ${pin.name}`} onClick={() => set(null)}>
        <Icon name="trash" size={14} />
      </ActionIcon>
      {wrong ? (
        <p className={css.wrong}>{wrong.map((problem) => problem.message).join(" ")}</p>
      ) : null}
    </li>
  );
}
