import { Button, Checkbox, Modal, Textarea } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cells, importLayout, layoutCheck } from "@/api/cells";
import { explain } from "@/api/errors";
import { virtualClusters } from "@/api/tenancy";
import { FilePicker } from "@/ui/FilePicker";
import { tellDone } from "@/ui/notify";
import { ImportVerdict } from "./ImportVerdict";
import css from "./ImportDialog.module.css";

/** A HiveD file dropped, chosen or pasted: what is wrong with it and what it would change is told
 * before it is taken. */
export function ImportDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [assign, setAssign] = useState(false);
  const [settled] = useDebouncedValue(text, 300);
  const check = useQuery({
    ...layoutCheck(settled, assign),
    enabled: open && settled.trim() !== "",
    placeholderData: keepPreviousData,
  });
  const current = settled === text && !check.isFetching ? check.data : undefined;
  const importing = useMutation({
    mutationFn: () => importLayout(text, assign),
    onSuccess: () => {
      setText("");
      onClose();
      tellDone("The file is imported. Nothing was moved or ended.");
      void queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
      return queries.invalidateQueries({ queryKey: cells.queryKey });
    },
  });
  const error = importing.error ?? (text.trim() ? check.error : null);
  return (
    <Modal opened={open} onClose={onClose} title="Import a HiveD file" size={860} centered>
      <div className={css.form}>
        <FilePicker onText={setText} accept=".yaml,.yml,.json,text/yaml,application/yaml">
          <Textarea
            aria-label="HiveD file"
            placeholder="Paste hivedscheduler.yaml here, or drop the file"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            rows={14}
            spellCheck={false}
            classNames={{ input: css.text }}
            data-autofocus
          />
        </FilePicker>
        <Checkbox
          label="Also take its virtual clusters"
          description="They then own what the file says; those that are missing are made. Else only the cells are taken."
          checked={assign}
          onChange={(event) => setAssign(event.currentTarget.checked)}
        />
        {error ? (
          <p className={css.bad} role="alert">
            {explain(error)}
          </p>
        ) : null}
        {check.data && text.trim() ? (
          <ImportVerdict check={check.data} busy={current === undefined} />
        ) : null}
        <div className={css.actions}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            disabled={!current?.fits}
            loading={importing.isPending}
            onClick={() => importing.mutate()}
          >
            Import
          </Button>
        </div>
      </div>
    </Modal>
  );
}
