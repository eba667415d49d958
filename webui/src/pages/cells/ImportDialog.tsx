import { Button, Checkbox, Textarea } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cells, importLayout, layoutCheck } from "@/api/cells";
import { errorMessage } from "@/api/errors";
import type { CheckedAssignment } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";
import { Dialog } from "@/ui/Dialog";
import { FilePicker } from "@/ui/FilePicker";
import { Icon } from "@/ui/Icon";
import { notifySuccess } from "@/ui/notify";
import { PathList } from "./PathList";
import css from "./ImportDialog.module.css";

/** A HiveD file dropped, chosen or pasted: what is wrong with it and what it would change is shown
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
      notifySuccess("The file is imported. Nothing was moved or ended.");
      void queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
      return queries.invalidateQueries({ queryKey: cells.queryKey });
    },
  });
  const error = importing.error ?? (text.trim() ? check.error : null);
  return (
    <Dialog opened={open} onClose={onClose} title="Import a HiveD file" size={860}>
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
            {errorMessage(error)}
          </p>
        ) : null}
        {check.data && text.trim() ? (
          <ImportReport check={check.data} busy={current === undefined} />
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
    </Dialog>
  );
}

/** What is wrong with a file, each with its path; or what importing it would do. */
function ImportReport({ check, busy }: { check: CheckedAssignment; busy: boolean }) {
  const { fits, errors, problems } = check;
  return (
    <section className={css.verdict} data-busy={busy || undefined} aria-busy={busy}>
      <p className={fits ? css.good : css.no} role="status">
        <Icon name={fits ? "check" : "cross"} size={14} />
        {fits ? "No problems found" : pluralize(errors.length, "mistake")}
      </p>
      {fits ? <Effects check={check} /> : null}
      {errors.length > 0 ? <PathList label="Mistakes" items={errors} /> : null}
      {problems.length > 0 ? (
        <>
          <p className={css.odd}>
            {pluralize(problems.length, "oddity", "oddities")}, no hindrance
          </p>
          <PathList label="Oddities" items={problems} />
        </>
      ) : null}
    </section>
  );
}

function Effects({ check }: { check: CheckedAssignment }) {
  const { left, downgraded, restored, shortfalls } = check;
  const chains = new Set(left.map((each) => each.chain)).size;
  return (
    <ul className={css.effects}>
      <li>
        {pluralize(left.length, "type")} of cells in {pluralize(chains, "chain")}.
      </li>
      {shortfalls.map(({ virtual_cluster, cell_type, asked, got }) => (
        <li key={virtual_cluster + cell_type} className={css.mind}>
          {virtual_cluster} would own {asked} × {cell_type}, and {got} are there.
        </li>
      ))}
      <li>
        {downgraded.length === 0
          ? "No running job loses its guarantee."
          : `${pluralize(downgraded.length, "running job")} would go on as opportunistic: ${names(downgraded)}.`}
      </li>
      {restored.length > 0 ? (
        <li>
          {pluralize(restored.length, "job")} would be guaranteed again: {names(restored)}.
        </li>
      ) : null}
    </ul>
  );
}

function names(jobs: CheckedAssignment["downgraded"]): string {
  const first = jobs.slice(0, 8).map((job) => job.name);
  return [...first, ...(jobs.length > 8 ? [`${jobs.length - 8} more`] : [])].join(", ");
}
