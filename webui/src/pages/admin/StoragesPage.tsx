import { ActionIcon, Button, Checkbox, MultiSelect, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { me } from "@/api/session";
import {
  createStorage,
  deleteStorage,
  grantStorage,
  revokeStorage,
  storages,
  updateStorage,
} from "@/api/storages";
import type { Storage, StorageBody } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { StorageTable } from "@/features/storages/StorageTable";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyState } from "@/ui/EmptyState";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import type { Column } from "@/ui/table/columns";
import css from "./admin.module.css";

export function StoragesPage() {
  const { data: user } = useQuery(me);
  const list = useQuery(storages);
  const [editing, setEditing] = useState<Storage | "new" | null>(null);
  const admin = user?.is_admin ?? false;
  const actions = useMemo(() => (admin ? [actionColumn(setEditing)] : []), [admin]);
  return (
    <>
      <PageHeader title="Storages" note="Folders that jobs mount by name">
        {admin ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setEditing("new")}
          >
            Add a storage
          </Button>
        ) : null}
      </PageHeader>
      <QueryState query={list} what="list of storages">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="No storages yet">
              {admin
                ? "Add an NFS export or a folder that every node has, and grant it to virtual clusters."
                : "An administrator adds storages and grants them to virtual clusters."}
            </EmptyState>
          ) : (
            <div className={css.list}>
              <StorageTable rows={data} extraColumns={actions} />
            </div>
          )
        }
      </QueryState>
      {editing ? (
        <StorageForm
          key={editing === "new" ? "" : editing.name}
          storage={editing === "new" ? null : editing}
          onClose={() => setEditing(null)}
        />
      ) : null}
    </>
  );
}

function actionColumn(onEdit: (storage: Storage) => void): Column<Storage> {
  return {
    id: "actions",
    header: "Change",
    hiddenHeader: true,
    width: "68px",
    align: "end",
    cell: (storage) => <StorageActions storage={storage} onEdit={() => onEdit(storage)} />,
  };
}

function StorageActions({ storage, onEdit }: { storage: Storage; onEdit: () => void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteStorage(storage.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: storages.queryKey }),
    onError: (error) => notifyError(error, "The storage was not removed"),
  });
  return (
    <span className={css.actions}>
      <ActionIcon size="sm" aria-label={`Edit ${storage.name}`} onClick={onEdit}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <DeleteIcon
        size="sm"
        label={`Remove ${storage.name}`}
        question={`Remove ${storage.name}?`}
        explanation="Jobs that start from then on cannot mount it. What lies in it stays where it is."
        verb="Remove"
        onConfirm={() => deletion.mutate()}
      />
    </span>
  );
}

const TYPES = [
  { value: "nfs", label: "NFS export" },
  { value: "host_path", label: "Folder of the nodes" },
];

const EMPTY = {
  name: "",
  type: "nfs" as StorageBody["type"],
  server: "",
  path: "",
  options: "",
  description: "",
  read_only: false,
  per_user: false,
  default: false,
  writers: [] as string[],
  readers: [] as string[],
};
type Draft = typeof EMPTY;

function draftOf(storage: Storage): Draft {
  const { name, type, description, read_only, per_user } = storage;
  const granted = (readOnly: boolean) =>
    storage.grants
      .filter((grant) => grant.read_only === readOnly)
      .map((grant) => grant.virtual_cluster);
  return {
    ...{ name, type, description, read_only, per_user, default: storage.default },
    server: storage.data["server"] ?? "",
    path: storage.data["path"] ?? "",
    options: storage.mount_options.join(","),
    writers: granted(false),
    readers: granted(true),
  };
}

function dataOf({ type, server, path }: Draft): Record<string, string> {
  return type === "nfs" ? { server, path } : { path };
}

async function save(draft: Draft, before: Storage | null): Promise<void> {
  const nfs = draft.type === "nfs";
  const { name, type, description, read_only, per_user } = draft;
  const change = {
    data: dataOf(draft),
    mount_options: nfs ? draft.options.split(",").filter(Boolean) : [],
    ...{ description, read_only, per_user, default: draft.default },
  };
  await (before ? updateStorage(name, change) : createStorage({ name, type, ...change }));
  for (const grant of before?.grants ?? []) {
    const vc = grant.virtual_cluster;
    if (!draft.writers.includes(vc) && !draft.readers.includes(vc)) await revokeStorage(name, vc);
  }
  for (const vc of draft.writers) await grantStorage(name, vc, false);
  for (const vc of draft.readers) await grantStorage(name, vc, true);
}

/** A new storage when there is none yet, else a change of this one. */
function StorageForm({ storage, onClose }: { storage: Storage | null; onClose: () => void }) {
  const queries = useQueryClient();
  const { data: vcs } = useQuery(virtualClusters);
  const [draft, setDraft] = useState<Draft>(storage ? draftOf(storage) : EMPTY);
  const names = (vcs ?? []).map((vc) => vc.name);
  const saving = useMutation({
    mutationFn: () => save(draft, storage),
    onSuccess: onClose,
    // Also after an error: the storage may be saved and one of its grants not.
    onSettled: () => queries.invalidateQueries({ queryKey: storages.queryKey }),
  });
  const text = (field: "name" | "server" | "path" | "options" | "description") => ({
    value: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  const flag = (field: "read_only" | "per_user" | "default") => ({
    checked: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.checked }),
  });
  return (
    <FormDialog
      open
      title={storage ? `Edit ${storage.name}` : "Add a storage"}
      verb={storage ? "Save" : "Add"}
      mutation={saving}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="What job files write; mounted at /mnt/NAME"
        required
        withAsterisk={false}
        disabled={storage !== null}
        {...text("name")}
      />
      <Select
        label="Type"
        data={TYPES}
        value={draft.type}
        allowDeselect={false}
        disabled={storage !== null}
        onChange={(type) => setDraft({ ...draft, type: type as StorageBody["type"] })}
      />
      {draft.type === "nfs" ? (
        <TextInput label="Server" required withAsterisk={false} {...text("server")} />
      ) : null}
      <TextInput
        label="Path"
        description={
          draft.type === "nfs" ? "Of the export" : "The agents must allow it: --storage-root"
        }
        required
        withAsterisk={false}
        {...text("path")}
      />
      {draft.type === "nfs" ? (
        <TextInput
          label="Mount options"
          description="For example vers=4.2,hard"
          {...text("options")}
        />
      ) : null}
      <TextInput label="Description" {...text("description")} />
      <Checkbox label="Read only for everyone" {...flag("read_only")} />
      <Checkbox label="A folder of its own for each user" {...flag("per_user")} />
      <Checkbox label="Mounted where a job file says storages: []" {...flag("default")} />
      <MultiSelect
        label="Virtual clusters that read and write"
        data={names.filter((name) => !draft.readers.includes(name))}
        value={draft.writers}
        onChange={(writers) => setDraft({ ...draft, writers })}
        clearable
      />
      <MultiSelect
        label="Virtual clusters that only read"
        data={names.filter((name) => !draft.writers.includes(name))}
        value={draft.readers}
        onChange={(readers) => setDraft({ ...draft, readers })}
        clearable
      />
    </FormDialog>
  );
}
