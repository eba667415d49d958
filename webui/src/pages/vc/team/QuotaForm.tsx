import { ActionIcon, Button, NumberInput, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { cells } from "@/api/cells";
import { cluster } from "@/api/cluster";
import { errorMessage } from "@/api/errors";
import type { Cells, VirtualCluster } from "@/api/types";
import { setQuotas, vcCells, virtualClusters } from "@/api/virtualClusters";
import { ownedGpusByModel } from "@/features/virtualClusters/ownedGpus";
import { shortModel } from "@/format/names";
import { Icon } from "@/ui/Icon";
import { notifySuccess } from "@/ui/notify";
import css from "./QuotaForm.module.css";

/** GPUs per model, saved together: the server takes all of them or none. */
export function QuotaForm({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const { data: summary } = useQuery(cluster);
  const { data: all } = useQuery(virtualClusters);
  const { data: shapes } = useQuery(cells);
  const [draft, setDraft] = useState(vc.quotas);
  const saving = useMutation({
    mutationFn: () => setQuotas(vc.name, draft),
    onSuccess: (saved) => {
      setDraft(saved.quotas);
      notifySuccess(`${vc.name}: quotas saved`);
      const stale = [virtualClusters.queryKey, cells.queryKey, vcCells(vc.name).queryKey];
      return Promise.all(stale.map((queryKey) => queries.invalidateQueries({ queryKey })));
    },
  });
  const models = Object.keys(draft).sort();
  const others = Object.keys(summary?.gpus ?? {}).filter((model) => !(model in draft));
  const changed = !sameQuotas(draft, vc.quotas);

  function set(model: string, gpus: number) {
    saving.reset();
    setDraft({ ...draft, [model]: gpus });
  }

  function drop(model: string) {
    saving.reset();
    setDraft(Object.fromEntries(Object.entries(draft).filter(([each]) => each !== model)));
  }

  function save(event: FormEvent) {
    event.preventDefault();
    saving.mutate();
  }

  return (
    <form onSubmit={save} className={css.form}>
      {models.map((model) => (
        <div key={model} className={css.row}>
          <NumberInput
            label={shortModel(model)}
            description={availableText(
              model,
              vc,
              ownedByOthers(model, vc, all, shapes),
              summary?.gpus[model]?.total,
            )}
            value={draft[model]}
            onChange={(value) => set(model, Number(value) || 0)}
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
      {models.length === 0 && others.length === 0 ? (
        <p className="dim">The cluster has no GPUs to give.</p>
      ) : null}
      {saving.error ? (
        <p className={css.error} role="alert">
          {errorMessage(saving.error)}
        </p>
      ) : null}
      <div className={css.actions}>
        <Button type="submit" disabled={!changed} loading={saving.isPending}>
          Save quotas
        </Button>
        {changed ? (
          <Button variant="subtle" color="gray" onClick={() => setDraft(vc.quotas)}>
            Undo
          </Button>
        ) : null}
      </div>
    </form>
  );
}

function availableText(model: string, vc: VirtualCluster, others: number, total = 0): string {
  return `${vc.used[model] ?? 0} in use; the cluster has ${total}, others own ${others}`;
}

function ownedByOthers(
  model: string,
  vc: VirtualCluster,
  all: VirtualCluster[] = [],
  shapes: Cells | undefined,
): number {
  return all
    .filter((each) => each.name !== vc.name)
    .reduce((sum, each) => sum + (ownedGpusByModel(each, shapes)[model] ?? 0), 0);
}

export function sameQuotas(a: Record<string, number>, b: Record<string, number>): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => a[name] === b[name]);
}
