import { Checkbox, MultiSelect, PasswordInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { groups } from "@/api/groups";
import {
  createStorage,
  grantStorage,
  grantStorageToGroup,
  revokeStorage,
  revokeStorageFromGroup,
  storages,
  updateStorage,
} from "@/api/storages";
import type { Storage, StorageBody } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { FormDialog } from "@/ui/FormDialog";
import { ReadNote } from "@/ui/ReadNote";

const TYPES = [
  { value: "nfs", label: "NFS export" },
  { value: "host_path", label: "Folder of the nodes" },
  { value: "s3", label: "Bucket (S3)" },
];

const EMPTY = {
  name: "",
  type: "nfs" as StorageBody["type"],
  server: "",
  path: "",
  options: "",
  endpoint: "",
  bucket: "",
  prefix: "",
  region: "",
  virtual_hosts: false,
  access_key: "",
  secret_key: "",
  description: "",
  read_only: false,
  per_user: false,
  home: false,
  default: false,
  writers: [] as string[],
  readers: [] as string[],
};
type Draft = typeof EMPTY;

/** What stands before the name of a group among the names of virtual clusters, which have none. */
const GROUP = "group:";

function holders(storage: Storage): [holder: string, readOnly: boolean][] {
  return [
    ...storage.grants.map((grant) => [grant.virtual_cluster, grant.read_only] as [string, boolean]),
    ...storage.group_grants.map(
      (grant) => [GROUP + grant.group, grant.read_only] as [string, boolean],
    ),
  ];
}

function draftOf(storage: Storage): Draft {
  const { name, type, description, read_only, per_user, home } = storage;
  const granted = (readOnly: boolean) =>
    holders(storage)
      .filter(([, only]) => only === readOnly)
      .map(([holder]) => holder);
  return {
    ...{ name, type, description, read_only, per_user, home, default: storage.default },
    server: storage.data["server"] ?? "",
    path: storage.data["path"] ?? "",
    options: storage.mount_options.join(","),
    endpoint: storage.data["endpoint"] ?? "",
    bucket: storage.data["bucket"] ?? "",
    prefix: storage.data["prefix"] ?? "",
    region: storage.data["region"] ?? "",
    virtual_hosts: storage.data["path_style"] === "false",
    ...{ access_key: "", secret_key: "" },
    writers: granted(false),
    readers: granted(true),
  };
}

function firstDraft(storage: Storage | null, managedBy?: string): Draft {
  if (storage) return draftOf(storage);
  return managedBy === undefined ? EMPTY : { ...EMPTY, name: `${managedBy}-`, type: "s3" };
}

function dataOf(draft: Draft): Record<string, string> {
  const { type, server, path, endpoint, bucket, prefix, region } = draft;
  if (type === "nfs") return { server, path };
  if (type === "host_path") return { path };
  const path_style = draft.virtual_hosts ? "false" : "true";
  const optional = Object.entries({ prefix, region }).filter(([, text]) => text);
  return { endpoint, bucket, path_style, ...Object.fromEntries(optional) };
}

async function save(draft: Draft, before: Storage | null, managedBy?: string): Promise<void> {
  const nfs = draft.type === "nfs";
  const { name, type, description, read_only, access_key, secret_key } = draft;
  const home = draft.home && type !== "s3";
  // The stored ones stay where none are written.
  const keys = type === "s3" && (access_key || secret_key) ? { access_key, secret_key } : {};
  const change = {
    ...keys,
    data: dataOf(draft),
    mount_options: nfs ? draft.options.split(",").filter(Boolean) : [],
    ...{ description, read_only, per_user: draft.per_user || home, home, default: draft.default },
  };
  if (managedBy !== undefined) {
    await (before
      ? updateStorage(name, change)
      : createStorage({ name, type, managed_by: managedBy, ...change }));
    return; // granted to this virtual cluster, and to no other
  }
  await (before ? updateStorage(name, change) : createStorage({ name, type, ...change }));
  for (const [holder] of before ? holders(before) : []) {
    if (!draft.writers.includes(holder) && !draft.readers.includes(holder)) {
      await revoke(name, holder);
    }
  }
  for (const holder of draft.writers) await grant(name, holder, false);
  for (const holder of draft.readers) await grant(name, holder, true);
}

function grant(name: string, holder: string, readOnly: boolean) {
  return holder.startsWith(GROUP)
    ? grantStorageToGroup(name, holder.slice(GROUP.length), readOnly)
    : grantStorage(name, holder, readOnly);
}

function revoke(name: string, holder: string) {
  return holder.startsWith(GROUP)
    ? revokeStorageFromGroup(name, holder.slice(GROUP.length))
    : revokeStorage(name, holder);
}

type TextField = Exclude<
  keyof Draft,
  "type" | "read_only" | "per_user" | "home" | "default" | "virtual_hosts" | "writers" | "readers"
>;

interface Input<T> {
  value: T;
  onChange: (event: React.ChangeEvent<HTMLInputElement>) => void;
}

interface BucketProps {
  draft: Draft;
  managed: boolean;
  stored: Storage | null;
  text: (field: TextField) => Input<string>;
  hosts: { checked: boolean } & Pick<Input<string>, "onChange">;
}

/** Where a bucket is, and its keys, which are written and never shown again. */
function BucketFields({ draft, managed, stored, text, hosts }: BucketProps) {
  const half = Boolean(draft.access_key) !== Boolean(draft.secret_key);
  return (
    <>
      <TextInput
        label="Endpoint"
        description="Of the object store: nodes connect to it, the server does not"
        placeholder="https://s3.example.org"
        required
        withAsterisk={false}
        {...text("endpoint")}
      />
      <TextInput label="Bucket" required withAsterisk={false} {...text("bucket")} />
      <TextInput
        label="Folder in the bucket"
        description="Without one all of it is copied for each task"
        placeholder="team/sets"
        {...text("prefix")}
      />
      <TextInput label="Region" placeholder="us-east-1" {...text("region")} />
      <Checkbox label="The bucket is part of the host's name" {...hosts} />
      <TextInput
        label="Access key"
        description={keysNote(managed, stored)}
        autoComplete="off"
        required={managed && stored === null}
        withAsterisk={false}
        {...text("access_key")}
      />
      <PasswordInput
        label="Secret key"
        description="Stored encrypted, sent to the nodes that need it, and never shown again"
        autoComplete="new-password"
        required={half}
        withAsterisk={false}
        {...text("secret_key")}
      />
    </>
  );
}

function keysNote(managed: boolean, stored: Storage | null): string {
  if (stored?.has_keys) return "Keys are stored. Leave both empty to keep them";
  return managed ? "That opens this bucket and no more" : "Without keys requests are not signed";
}

interface Props {
  storage: Storage | null;
  /** The virtual cluster whose VC admin adds or changes a bucket of its own; without it, an admin
   *  does, of any type and for anyone. */
  managedBy?: string;
  onClose: () => void;
}

/** A new storage when there is none yet, else a change of this one. */
export function StorageForm({ storage, managedBy, onClose }: Props) {
  const queries = useQueryClient();
  const managed = managedBy !== undefined;
  const vcs = useQuery({ ...virtualClusters, enabled: !managed });
  const [draft, setDraft] = useState<Draft>(() => firstDraft(storage, managedBy));
  const known = useQuery({ ...groups, enabled: !managed });
  const choices = (taken: string[]) => [
    {
      group: "Virtual clusters",
      items: (vcs.data ?? []).map((vc) => vc.name).filter((name) => !taken.includes(name)),
    },
    {
      group: "Groups of users",
      items: (known.data ?? [])
        .map(({ name }) => ({ value: GROUP + name, label: name }))
        .filter(({ value }) => !taken.includes(value)),
    },
  ];
  const saving = useMutation({
    mutationFn: () => save(draft, storage, managedBy),
    onSuccess: onClose,
    // Also after an error: the storage may be saved and one of its grants not.
    onSettled: () => queries.invalidateQueries({ queryKey: storages.queryKey }),
  });
  const text = (field: TextField) => ({
    value: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  const flag = (field: "read_only" | "per_user" | "home" | "default" | "virtual_hosts") => ({
    checked: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.checked }),
  });
  return (
    <FormDialog
      open
      title={storage ? `Edit ${storage.name}` : managed ? "Add a bucket" : "Add a storage"}
      verb={storage ? "Save" : "Add"}
      mutation={saving}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description={
          managed
            ? `Begins with ${managedBy}-; what job files write, mounted at /mnt/NAME`
            : "What job files write; mounted at /mnt/NAME"
        }
        required
        withAsterisk={false}
        disabled={storage !== null}
        {...text("name")}
      />
      {managed ? null : (
        <Select
          label="Type"
          data={TYPES}
          value={draft.type}
          allowDeselect={false}
          disabled={storage !== null}
          onChange={(type) => setDraft({ ...draft, type: type as StorageBody["type"] })}
        />
      )}
      {draft.type === "nfs" ? (
        <TextInput label="Server" required withAsterisk={false} {...text("server")} />
      ) : null}
      {draft.type === "s3" ? (
        <BucketFields
          draft={draft}
          managed={managed}
          stored={storage}
          text={text}
          hosts={flag("virtual_hosts")}
        />
      ) : (
        <TextInput
          label="Path"
          description={
            draft.type === "nfs" ? "Of the export" : "The agents must allow it: --storage-root"
          }
          required
          withAsterisk={false}
          {...text("path")}
        />
      )}
      {draft.type === "nfs" ? (
        <TextInput
          label="Mount options"
          description="For example vers=4.2,hard"
          {...text("options")}
        />
      ) : null}
      <TextInput label="Description" {...text("description")} />
      <Checkbox label="Read only for everyone" {...flag("read_only")} />
      <Checkbox
        label="A folder of its own for each user"
        disabled={draft.home}
        {...flag("per_user")}
        checked={draft.per_user || draft.home}
      />
      {draft.type === "s3" ? null : (
        <Checkbox
          label="Home of its users"
          description="The folder of the owner is mounted at /home/USER in each job"
          {...flag("home")}
        />
      )}
      <Checkbox label="Mounted where a job file says storages: []" {...flag("default")} />
      {managed ? null : (
        <>
          <ReadNote query={vcs} what="list of virtual clusters" />
          <ReadNote query={known} what="list of groups" />
          <MultiSelect
            label="Who reads and writes"
            description="Jobs of these virtual clusters, and of the users of these groups wherever they run"
            data={choices(draft.readers)}
            value={draft.writers}
            onChange={(writers) => setDraft({ ...draft, writers })}
            clearable
          />
          <MultiSelect
            label="Who only reads"
            data={choices(draft.writers)}
            value={draft.readers}
            onChange={(readers) => setDraft({ ...draft, readers })}
            clearable
          />
        </>
      )}
    </FormDialog>
  );
}
