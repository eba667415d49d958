import { Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { createDataset, DATASET_LISTS } from "@/api/datasets";
import { me } from "@/api/session";
import { storages } from "@/api/storages";
import { FormDialog } from "@/ui/FormDialog";
import { unreadText } from "@/ui/ReadNote";

interface Props {
  /** The folder that it is to be made of, as far as that is known. */
  storage?: string;
  path?: string;
  /** The job whose outputs it is. */
  job?: { id: string; name: string };
  onClose: () => void;
}

/** Makes a dataset of a folder of a storage, and shows it. */
export function NewDatasetForm({ storage, path, job, onClose }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { data: user } = useQuery(me);
  const places = useQuery(storages);
  const vcs = (user?.virtual_clusters ?? []).filter((vc) => vc.role !== "viewer");
  const [draft, setDraft] = useState({
    name: "",
    version: "",
    vc: "",
    storage: storage ?? "",
    path: path ?? "",
    description: "",
  });
  const creation = useMutation({
    mutationFn: () =>
      createDataset({
        virtual_cluster: draft.vc || (vcs[0]?.name ?? ""),
        name: draft.name,
        version: draft.version,
        storage: draft.storage,
        path: draft.path,
        description: draft.description,
        ...(job ? { job: job.id } : {}),
      }),
    onSuccess: async (made) => {
      await queries.invalidateQueries({ queryKey: DATASET_LISTS });
      onClose();
      await navigate({ to: "/datasets/$id", params: { id: made.id } });
    },
  });
  const text = (field: "name" | "version" | "path" | "description") => ({
    value: draft[field],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      setDraft((old) => ({ ...old, [field]: value }));
    },
  });
  return (
    <FormDialog
      open
      title={job ? `Make a dataset of ${job.name}` : "Make a dataset"}
      verb="Make it"
      mutation={creation}
      onClose={onClose}
    >
      <TextInput label="Name" required withAsterisk={false} {...text("name")} />
      <TextInput label="Version" placeholder="The next number" {...text("version")} />
      <Select
        label="Storage"
        required
        withAsterisk={false}
        data={(places.data ?? []).map((each) => each.name)}
        error={unreadText(places, "list of storages")}
        value={draft.storage || null}
        onChange={(name) => setDraft((old) => ({ ...old, storage: name ?? "" }))}
      />
      <TextInput
        label="Folder"
        description="Its files stay where they are; jobs mount it to read"
        placeholder="All of the storage"
        {...text("path")}
      />
      <Select
        label="Virtual cluster"
        description="Its members see the dataset, and their jobs can mount it"
        data={vcs.map((vc) => vc.name)}
        value={draft.vc || (vcs[0]?.name ?? null)}
        allowDeselect={false}
        onChange={(vc) => setDraft((old) => ({ ...old, vc: vc ?? "" }))}
      />
      <Textarea label="Description" autosize minRows={2} {...text("description")} />
    </FormDialog>
  );
}
