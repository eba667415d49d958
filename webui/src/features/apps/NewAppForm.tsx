import { Autocomplete, MultiSelect, NumberInput, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { images } from "@/api/admin";
import { apps, createApp } from "@/api/apps";
import { me } from "@/api/session";
import { storages } from "@/api/storages";
import type { NewAppBody } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";
import { notifySuccess } from "@/ui/notify";
import { ReadNote, unreadText } from "@/ui/ReadNote";
import css from "./apps.module.css";

const TYPES: { value: NewAppBody["type"]; label: string }[] = [
  { value: "jupyterlab", label: "JupyterLab" },
  { value: "code-server", label: "VS Code (code-server)" },
  { value: "shell", label: "Shell in the browser" },
];

/** Starts a notebook, an editor or a shell in a job of its own. */
export function NewAppForm({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const { data: user } = useQuery(me);
  const catalogueQuery = useQuery(images);
  const { data: catalogue } = catalogueQuery;
  const mountsQuery = useQuery(storages);
  const { data: mounts } = mountsQuery;
  const vcs = (user?.virtual_clusters ?? []).filter((vc) => vc.role !== "viewer");
  const [draft, setDraft] = useState({
    type: "jupyterlab" as NewAppBody["type"],
    image: "",
    vc: "",
    gpus: 0 as number | string,
    cpus: 2 as number | string,
    memory: 4096 as number | string,
    storages: [] as string[],
  });
  const change = (part: Partial<typeof draft>) => setDraft((old) => ({ ...old, ...part }));
  const vc = draft.vc || (vcs[0]?.name ?? "");
  const creation = useMutation({
    mutationFn: () =>
      createApp({
        type: draft.type,
        image: catalogue?.find((each) => each.name === draft.image)?.reference ?? draft.image,
        virtual_cluster: vc,
        gpus: Number(draft.gpus),
        cpus: Number(draft.cpus),
        memory_mb: Number(draft.memory),
        storages: draft.storages,
      }),
    onSuccess: async (made) => {
      await queries.invalidateQueries({ queryKey: apps.queryKey });
      notifySuccess(`${made.job_name} is submitted`);
      onClose();
    },
  });
  return (
    <FormDialog open title="New notebook" verb="Start" mutation={creation} onClose={onClose}>
      <Select
        label="Type"
        data={TYPES}
        value={draft.type}
        allowDeselect={false}
        onChange={(type) => type && change({ type: type as NewAppBody["type"] })}
      />
      <Autocomplete
        label="Image"
        description="From the catalogue, or any address; it has to contain the program."
        required
        data={(catalogue ?? []).map((image) => image.name)}
        error={unreadText(catalogueQuery, "catalogue")}
        value={draft.image}
        onChange={(image) => change({ image })}
      />
      <Select
        label="Virtual cluster"
        data={vcs.map((each) => each.name)}
        value={vc}
        allowDeselect={false}
        onChange={(name) => name && change({ vc: name })}
      />
      <div className={css.row}>
        <NumberInput
          label="GPUs"
          min={0}
          value={draft.gpus}
          onChange={(value) => change({ gpus: value })}
          allowDecimal={false}
          allowNegative={false}
          required
          withAsterisk={false}
        />
        <NumberInput
          label="CPU cores"
          min={1}
          value={draft.cpus}
          onChange={(value) => change({ cpus: value })}
          allowDecimal={false}
          allowNegative={false}
          required
          withAsterisk={false}
        />
        <NumberInput
          label="Memory in MiB"
          min={64}
          step={1024}
          value={draft.memory}
          onChange={(value) => change({ memory: value })}
          allowDecimal={false}
          allowNegative={false}
          required
          withAsterisk={false}
        />
      </div>
      <ReadNote query={mountsQuery} what="list of storages" />
      {mounts?.length ? (
        <MultiSelect
          label="Storages"
          description="Only what lies in a storage is there after the job's end."
          data={mounts.map((each) => each.name)}
          value={draft.storages}
          onChange={(names) => change({ storages: names })}
        />
      ) : null}
    </FormDialog>
  );
}
