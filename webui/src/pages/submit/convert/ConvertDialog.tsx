import { Button, Modal, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { explain } from "@/api/errors";
import { convert, type ForeignFormat } from "@/api/jobs";
import type { Converted } from "@/api/types";
import { FilePicker } from "@/ui/FilePicker";
import css from "./ConvertDialog.module.css";

interface Props {
  open: boolean;
  onClose: () => void;
  onConverted: (converted: Converted) => void;
}

/** A Slurm script or a Kubeflow manifest, pasted or dropped, becomes a job file. */
export function ConvertDialog({ open, onClose, onConverted }: Props) {
  const [text, setText] = useState("");
  const [format, setFormat] = useState<ForeignFormat>("auto");
  const converting = useMutation({
    mutationFn: () => convert(text, format),
    onSuccess: (converted) => {
      onConverted(converted);
      onClose();
    },
  });
  return (
    <Modal opened={open} onClose={onClose} title="Import a job" size={760} centered>
      <div className={css.form}>
        <SegmentedControl
          aria-label="Format"
          value={format}
          onChange={(next) => setFormat(next as ForeignFormat)}
          data={[
            { value: "auto", label: "Find out" },
            { value: "slurm", label: "Slurm" },
            { value: "kubeflow", label: "Kubeflow" },
          ]}
        />
        <FilePicker onText={setText} accept=".sh,.sbatch,.slurm,.yaml,.yml,text/*">
          <Textarea
            aria-label="Slurm script or Kubeflow manifest"
            placeholder="Paste a batch script with #SBATCH lines, or a PyTorchJob, TFJob, MPIJob or TrainJob"
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
            {explain(converting.error)}
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
    </Modal>
  );
}
