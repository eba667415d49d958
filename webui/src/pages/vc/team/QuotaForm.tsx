import { ActionIcon, Button, NumberInput, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { cells } from "@/api/cells";
import { cluster } from "@/api/cluster";
import { errorMessage, isApiError } from "@/api/errors";
import type { Cells, VirtualCluster } from "@/api/types";
import { setQuotas, vcCells, virtualCluster, virtualClusters } from "@/api/virtualClusters";
import { ownedGpusByModel } from "@/features/virtualClusters/ownedGpus";
import { shortModel } from "@/format/names";
import { Icon } from "@/ui/Icon";
import { ReadNote } from "@/ui/ReadNote";
import { notifySuccess } from "@/ui/notify";
import css from "./QuotaForm.module.css";

type Quotas = Record<string, number>;
/** "" where the field is empty. */
type Draft = Record<string, number | "">;

/** GPUs per model, saved together: the server takes all of them or none. What others save is taken
 * up at once while nothing is changed here; else it is shown, and the own changes wait. */
export function QuotaForm({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const clusterQuery = useQuery(cluster);
  const { data: summary } = clusterQuery;
  const all = useQuery(virtualClusters);
  const shapes = useQuery(cells);
  const [base, setBase] = useState(vc.quotas);
  const [draft, setDraft] = useState<Draft>(vc.quotas);
  const [seen, setSeen] = useState(vc.quotas);
  const saving = useMutation({
    mutationFn: (sent: Quotas) => setQuotas(vc.name, sent, base),
    onSuccess: (saved, sent) => {
      // Before it is read again: else the own quotas differ from `seen`, as if others had saved.
      queries.setQueryData(virtualCluster(vc.name).queryKey, saved);
      setBase(saved.quotas);
      // What was changed while it was saved stays, and is not saved yet.
      setDraft((now) => merged(sent, now, saved.quotas));
      notifySuccess(`${vc.name}: quotas saved`);
      const stale = [virtualClusters.queryKey, cells.queryKey, vcCells(vc.name).queryKey];
      return Promise.all(stale.map((queryKey) => queries.invalidateQueries({ queryKey })));
    },
    onError: (error) => {
      // What the other one saved is shown as soon as it is read.
      if (isApiError(error, 409))
        void queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
    },
  });
  const models = Object.keys(draft).sort();
  const others = Object.keys(summary?.gpus ?? {}).filter((model) => !(model in draft));
  const changed = !sameQuotas(draft, base);
  const empty = Object.values(draft).includes("");
  const newer = changed && !sameQuotas(seen, base);
  if (!sameQuotas(seen, vc.quotas)) {
    setSeen(vc.quotas);
    if (!changed) adopt(vc.quotas);
  }

  /** Applies the own changes to what is saved now. */
  function adopt(fresh: Quotas) {
    setBase(fresh);
    setDraft(merged(base, draft, fresh));
  }

  /** An answer that is still to come is waited for. */
  function clearError() {
    if (saving.isError) saving.reset();
  }

  function set(model: string, gpus: number | "") {
    clearError();
    setDraft({ ...draft, [model]: gpus });
  }

  function drop(model: string) {
    clearError();
    setDraft(Object.fromEntries(Object.entries(draft).filter(([each]) => each !== model)));
  }

  function save(event: FormEvent) {
    event.preventDefault();
    saving.mutate(draft as Quotas);
  }

  return (
    <form onSubmit={save} className={css.form}>
      <ReadNote query={clusterQuery} what="list of the cluster's GPUs" />
      <ReadNote query={all} what="list of what others own" />
      <ReadNote query={shapes} what="list of cell types" />
      {models.map((model) => (
        <div key={model} className={css.row}>
          <NumberInput
            label={shortModel(model)}
            description={availableText(
              model,
              vc,
              ownedByOthers(model, vc, all.data, shapes.data),
              summary ? (summary.gpus[model]?.total ?? 0) : null,
            )}
            value={draft[model]}
            onChange={(value) => set(model, value === "" ? "" : Number(value))}
            error={draft[model] === "" ? "Enter a number; 0 takes the model away." : null}
            min={0}
            max={100_000}
            allowDecimal={false}
            allowNegative={false}
            className={css.number}
          />
          <ActionIcon
            aria-label={`Take all ${shortModel(model)} away`}
            className={css.drop}
            onClick={() => drop(model)}
          >
            <Icon name="trash" size={14} />
          </ActionIcon>
        </div>
      ))}
      {others.length > 0 ? (
        <Select
          aria-label="Add a GPU model"
          placeholder="Add a GPU model"
          data={others.map((model) => ({ value: model, label: shortModel(model) }))}
          value={null}
          onChange={(model) => model && set(model, 0)}
        />
      ) : null}
      {models.length === 0 && summary && others.length === 0 ? (
        <p className="dim">The cluster has no GPUs to give.</p>
      ) : null}
      {newer ? (
        <div className={css.newer} role="alert">
          <p>
            <b>Another administrator saved first.</b> Now saved: {difference(base, seen)}. Your
            changes are not saved.
          </p>
          <Button
            variant="default"
            onClick={() => {
              clearError();
              adopt(seen);
            }}
          >
            Reload and keep my changes
          </Button>
        </div>
      ) : null}
      {saving.error && !newer ? (
        <p className={css.error} role="alert">
          {errorMessage(saving.error)}
        </p>
      ) : null}
      <div className={css.actions}>
        <Button type="submit" disabled={!changed || empty || newer} loading={saving.isPending}>
          Save quotas
        </Button>
        {changed ? (
          <Button
            variant="subtle"
            color="gray"
            onClick={() => {
              clearError();
              setBase(seen);
              setDraft(seen);
            }}
          >
            Undo
          </Button>
        ) : null}
      </div>
    </form>
  );
}

/** `others` and `total` are null while they are not known. */
function availableText(
  model: string,
  vc: VirtualCluster,
  others: number | null,
  total: number | null,
): string {
  const used = `${vc.used[model] ?? 0} in use`;
  const parts = [
    total === null ? null : `the cluster has ${total}`,
    others === null ? null : `others own ${others}`,
  ].filter(Boolean);
  return parts.length > 0 ? `${used}; ${parts.join(", ")}` : used;
}

function ownedByOthers(
  model: string,
  vc: VirtualCluster,
  all: VirtualCluster[] | undefined,
  shapes: Cells | undefined,
): number | null {
  if (!all || !shapes) return null;
  return all
    .filter((each) => each.name !== vc.name)
    .reduce((sum, each) => sum + (ownedGpusByModel(each, shapes)[model] ?? 0), 0);
}

function modelsOf(a: Draft, b: Draft): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
}

/** The changes from `before` to `draft`, made to `fresh`. */
function merged(before: Draft, draft: Draft, fresh: Quotas): Draft {
  const kept = modelsOf(fresh, draft)
    .map((model) => [model, (before[model] === draft[model] ? fresh : draft)[model]] as const)
    .filter(([, gpus]) => gpus !== undefined);
  return Object.fromEntries(kept) as Draft;
}

function sameQuotas(a: Draft, b: Draft): boolean {
  return modelsOf(a, b).every((model) => a[model] === b[model]);
}

/** "A100 12 (8 before)", of each model whose number is another. */
function difference(before: Quotas, after: Quotas): string {
  return modelsOf(before, after)
    .filter((model) => before[model] !== after[model])
    .map((model) => `${shortModel(model)} ${after[model] ?? 0} (${before[model] ?? 0} before)`)
    .join(", ");
}
