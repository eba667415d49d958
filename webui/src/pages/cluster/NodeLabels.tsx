import { Autocomplete, Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { cells } from "@/api/cells";
import { NODES, setLabels } from "@/api/cluster";
import { grid, type GridNode } from "@/api/grid";
import type { Node } from "@/api/types";
import { notifyError } from "@/ui/notify";
import { LABELS, type Label } from "./racks";
import css from "./NodeLabels.module.css";

/** Where the node stands: racks and fabrics become cells of their own. */
export function NodeLabels({ node }: { node: Node }) {
  const queries = useQueryClient();
  const { data } = useQuery(grid);
  const [draft, setDraft] = useState<Partial<Record<Label, string>>>({});
  const value = (label: Label) => draft[label] ?? node.labels[label] ?? "";
  const changed = LABELS.filter((label) => value(label).trim() !== (node.labels[label] ?? ""));
  const saving = useMutation({
    mutationFn: () =>
      setLabels(
        node.name,
        Object.fromEntries(changed.map((label) => [label, value(label).trim() || null])),
      ),
    onSuccess: async () => {
      void queries.invalidateQueries({ queryKey: cells.queryKey });
      await queries.invalidateQueries({ queryKey: NODES });
      setDraft({});
    },
    onError: (error) => notifyError(error, "The labels were not saved"),
  });

  function save(event: FormEvent) {
    event.preventDefault();
    if (changed.length > 0) saving.mutate();
  }

  return (
    <form className={css.form} onSubmit={save}>
      {LABELS.map((label) => (
        <Autocomplete
          key={label}
          size="xs"
          label={TITLES[label]}
          placeholder="as the agent reports"
          maxLength={63}
          data={known(data?.nodes ?? [], label)}
          value={value(label)}
          onChange={(next) => setDraft({ ...draft, [label]: next })}
        />
      ))}
      <Button
        type="submit"
        variant="default"
        disabled={changed.length === 0}
        loading={saving.isPending}
      >
        Save labels
      </Button>
    </form>
  );
}

const TITLES: Record<Label, string> = { rack: "Rack", fabric: "Fabric" };

function known(all: GridNode[], label: Label): string[] {
  const values = all.map((node) => node.labels[label]).filter((each) => each !== undefined);
  return [...new Set(values)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
