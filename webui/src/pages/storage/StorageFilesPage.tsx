import { Button, FileButton } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { downloadUrl, removeFile, storageFiles, uploadFile } from "@/api/storages";
import type { StorageFile } from "@/api/types";
import { NewDatasetForm } from "@/features/datasets/NewDatasetForm";
import { formatBytes, pluralize } from "@/format/numbers";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { ShowMore } from "@/ui/ShowMore";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { RelativeTime } from "@/ui/Time";
import { notifyError, notifySuccess } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import css from "./StorageFilesPage.module.css";

/** One folder of a storage. */
export function StorageFilesPage() {
  const { name } = useParams({ from: "/shell/storages/$name" });
  const { path = "", q = "" } = useSearch({ from: "/shell/storages/$name" });
  return <StorageFolder name={name} path={path} search={q} />;
}

interface FolderProps {
  name: string;
  path: string;
  /** What the shown entries have in their names. */
  search?: string;
}

export function StorageFolder({ name, path, search = "" }: FolderProps) {
  const folder = useInfiniteQuery(storageFiles(name, path, search));
  const writable = folder.data?.pages[0]?.writable ?? false;
  const entries = useMemo(
    () => folder.data?.pages.flatMap((page) => page.results) ?? [],
    [folder.data],
  );
  const [making, setMaking] = useState(false);
  const columns = useMemo(() => fileColumns(name, path, writable), [name, path, writable]);
  return (
    <>
      <PageHeader above={<Crumbs name={name} path={path} />} title={path.split("/").pop() || name}>
        {folder.data ? (
          <Button
            variant="default"
            leftSection={<Icon name="tag" size={14} />}
            onClick={() => setMaking(true)}
          >
            Make a dataset
          </Button>
        ) : null}
        {writable ? <Upload name={name} path={path} /> : null}
      </PageHeader>
      <StaleNote query={folder} what="folder" />
      {folder.isPending ? <SkeletonRows /> : null}
      {folder.isError && !folder.data ? (
        <ErrorState error={folder.error} what="folder" retry={() => void folder.refetch()} page />
      ) : null}
      {folder.data && entries.length === 0 && !search ? (
        <EmptyState title="Nothing here yet">
          {writable ? "Upload a file, or have a job write one." : "No job has written here yet."}
        </EmptyState>
      ) : null}
      {entries.length > 0 || (folder.data && search) ? (
        <PageTable
          filterLabel="Filter files"
          label="Files"
          columns={columns}
          rows={entries}
          rowId={(entry) => entry.name}
          file={{ rows: `files-of-${name}` }}
          minWidth={480}
        >
          <ShowMore list={folder} className={css.more} />
        </PageTable>
      ) : null}
      {making ? (
        <NewDatasetForm storage={name} path={path} onClose={() => setMaking(false)} />
      ) : null}
    </>
  );
}

const inner = (path: string, name: string) => (path ? `${path}/${name}` : name);

function fileColumns(storage: string, path: string, writable: boolean): Column<StorageFile>[] {
  const columns: Column<StorageFile>[] = [
    {
      id: "name",
      header: "Name",
      width: "minmax(180px, 3fr)",
      cell: (entry) => <EntryLink storage={storage} path={inner(path, entry.name)} entry={entry} />,
      sortValue: (entry) => entry.name,
    },
    {
      id: "size",
      header: "Size",
      width: "84px",
      align: "end",
      cell: (entry) => (entry.type === "file" ? formatBytes(entry.size) : entry.type),
      sortValue: (entry) => entry.size,
    },
    {
      id: "modified_at",
      header: "Modified",
      width: "130px",
      optional: "phone",
      cell: (entry) => <RelativeTime at={entry.modified_at} />,
      sortValue: (entry) => entry.modified_at,
    },
  ];
  if (!writable) return columns;
  return [
    ...columns,
    {
      id: "actions",
      header: "Change",
      hiddenHeader: true,
      width: "48px",
      align: "end",
      cell: (entry) => <Remove storage={storage} path={inner(path, entry.name)} entry={entry} />,
    },
  ];
}

interface EntryProps {
  storage: string;
  path: string;
  entry: StorageFile;
}

function EntryLink({ storage, path, entry }: EntryProps) {
  if (entry.type === "folder") {
    return (
      <Link
        to="/storages/$name"
        params={{ name: storage }}
        search={{ path }}
        className={css.name}
        title={entry.name}
      >
        {entry.name}/
      </Link>
    );
  }
  if (entry.type !== "file") {
    return (
      <span className={`dim ${css.name}`} title={entry.name}>
        {entry.name}
      </span>
    );
  }
  return (
    <a
      href={downloadUrl(storage, path)}
      download={entry.name}
      className={css.name}
      title={entry.name}
    >
      {entry.name}
    </a>
  );
}

function Remove({ storage, path, entry }: EntryProps) {
  const queries = useQueryClient();
  const removal = useMutation({
    mutationFn: () => removeFile(storage, path),
    onSettled: () => queries.invalidateQueries({ queryKey: ["storage-files", storage] }),
    onError: (error) => notifyError(error, `${entry.name} was not removed`),
  });
  const whole = entry.type === "folder" ? " with all that is in it" : "";
  return (
    <DeleteIcon
      size="sm"
      label={`Remove ${entry.name}`}
      question={`Remove ${entry.name}${whole}?`}
      explanation="It cannot be brought back."
      verb="Remove"
      busy={removal.isPending}
      onConfirm={() => removal.mutate()}
    />
  );
}

function Upload({ name, path }: { name: string; path: string }) {
  const queries = useQueryClient();
  const [progress, setProgress] = useState({ file: "", bytes: "" });
  const uploading = useMutation({
    mutationFn: async (files: File[]) => {
      for (const [index, file] of files.entries()) {
        const which = `${index + 1} of ${pluralize(files.length, "file")}`;
        await uploadFile(name, inner(path, file.name), file, (bytes) =>
          setProgress({
            file: which,
            bytes: `: ${formatBytes(bytes)} of ${formatBytes(file.size)}`,
          }),
        );
      }
    },
    onSuccess: (_done, files) => notifySuccess(`${pluralize(files.length, "file")} uploaded`),
    onSettled: () => {
      setProgress({ file: "", bytes: "" });
      return queries.invalidateQueries({ queryKey: ["storage-files", name] });
    },
    onError: (error) =>
      notifyError(error, "The upload was cut; choose the same file to go on with it"),
  });
  return (
    <>
      <span className="dim">
        {/* Without the bytes, which would be announced one by one. */}
        <span role="status">{progress.file}</span>
        {progress.bytes}
      </span>
      <FileButton multiple onChange={(files) => uploading.mutate(files)}>
        {(props) => (
          <Button
            {...props}
            variant="default"
            loading={uploading.isPending}
            leftSection={<Icon name="upload" size={14} />}
          >
            Upload files
          </Button>
        )}
      </FileButton>
    </>
  );
}

function Crumbs({ name, path }: { name: string; path: string }) {
  const parts = path ? path.split("/") : [];
  const above = parts.map((part, index) => ({ part, path: parts.slice(0, index).join("/") }));
  return (
    <Breadcrumb>
      <Link to="/storages">Storages</Link>
      {above.map((each, index) => (
        <Link
          key={each.path}
          to="/storages/$name"
          params={{ name }}
          search={each.path ? { path: each.path } : {}}
        >
          {index === 0 ? name : parts[index - 1]}
        </Link>
      ))}
    </Breadcrumb>
  );
}
