import { ActionIcon, Button, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { errorMessage } from "@/api/errors";
import { check, convert, type ForeignFormat } from "@/api/jobs";
import type { Converted } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { FilePicker } from "@/ui/FilePicker";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import css from "./ConvertDialog.module.css";

interface Props {
  open: boolean;
  onClose: () => void;
  onConverted: (converted: Converted) => void;
}

/** A job file of OpenPAI's protocol is one of Skep already. */
function isJobFile(text: string): boolean {
  return /^["']?protocolVersion["']?\s*:\s*["']?2["']?\s*(#.*)?$/m.test(text) || isJson(text);
}

function isJson(text: string): boolean {
  try {
    const data: unknown = JSON.parse(text);
    return typeof data === "object" && data !== null && "protocolVersion" in data;
  } catch {
    return false;
  }
}

/** A job file is taken as it is, with what the check says of it; anything else is converted. */
async function importFile(text: string, format: ForeignFormat): Promise<Converted> {
  if (format !== "auto" || !isJobFile(text)) return convert(text, format);
  const { errors, notes } = await check(text);
  const found = [...errors, ...notes].map(({ code, message, line }) => ({ code, message, line }));
  return { text, notes: found } as Converted;
}

/** An OpenPAI job file, a Slurm script or a Kubeflow manifest, pasted or dropped, becomes a job file. */
export function ConvertDialog({ open, onClose, onConverted }: Props) {
  const [text, setText] = useState("");
  const [format, setFormat] = useState<ForeignFormat>("auto");
  const converting = useMutation({
    mutationFn: () => importFile(text, format),
    onSuccess: (converted) => {
      onConverted(converted);
      onClose();
    },
  });
  return (
    <Dialog opened={open} onClose={onClose} title="Import a job" size={760}>
      <div className={css.form}>
        <SegmentedControl
          aria-label="Format"
          value={format}
          onChange={(next) => setFormat(next as ForeignFormat)}
          data={[
            { value: "auto", label: "Detect" },
            { value: "slurm", label: "Slurm" },
            { value: "kubeflow", label: "Kubeflow" },
          ]}
        />
        <FilePicker onText={setText} accept=".sh,.sbatch,.slurm,.yaml,.yml,text/*">
          <Textarea
            aria-label="Slurm script, Kubeflow manifest or OpenPAI job file"
            placeholder="Paste a batch script with #SBATCH lines, a PyTorchJob, TFJob, MPIJob or TrainJob, or a job file of OpenPAI (protocolVersion: 2)"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            rows={16}
            spellCheck={false}
            classNames={{ input: css.text }}
            data-autofocus
          />
        </FilePicker>
        {converting.error ? (
          <p className={css.bad} role="alert">
            {errorMessage(converting.error)}
          </p>
        ) : null}
        <div className={css.actions}>
          <span className="dim">It replaces what is in the editor; nothing is submitted.</span>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            disabled={text.trim() === ""}
            loading={converting.isPending}
            onClick={() => converting.mutate()}
          >
            Import
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

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
            <FormattedMessage text={note.message} />
          </li>
        ))}
      </ul>
    </Section>
  );
}
