import { ActionIcon, Button, MultiSelect, Select, TextInput, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import {
  createImage,
  deleteImage,
  imageNodes,
  images,
  inspectImage,
  updateImage,
} from "@/api/admin";
import { me } from "@/api/session";
import type { Image, ImageBody } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { formatBytes } from "@/format/numbers";
import { usePoll } from "@/live/live";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import { unreadText } from "@/ui/ReadNote";
import { contentsOf, driverProblem } from "@/features/images/labels";
import { PrefetchDialog, PrefetchList } from "./Prefetches";
import css from "./admin.module.css";

const NEW: ImageBody = { name: "", reference: "", description: "", virtual_clusters: [] };

export function ImagesPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...images, refetchInterval: usePoll(10_000, 60_000) });
  const [editing, setEditing] = useState<ImageBody | null>(null);
  const [bringing, setBringing] = useState<Image | null>(null);
  const { data: vcs } = useQuery(virtualClusters);
  const admin = user?.is_admin ?? false;
  const managed = useMemo(
    () => (vcs ?? []).filter(({ may_manage }) => may_manage).map(({ name }) => name),
    [vcs],
  );
  const manages = admin || managed.length > 0;
  const columns = useMemo(
    () => imageColumns({ admin, managed, onEdit: setEditing, onPrefetch: setBringing }),
    [admin, managed],
  );
  return (
    <>
      <PageHeader title="Images" note="Names that job files may use instead of a reference">
        <ExportButton list="images" />
        {manages ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setEditing(admin ? NEW : { ...NEW, managed_by: managed[0] })}
          >
            Add an image
          </Button>
        ) : null}
      </PageHeader>
      <QueryState query={list} what="list of images">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="No images yet">
              Job files can name any image that the nodes can pull. Images added here get a short
              name.
            </EmptyState>
          ) : (
            <PageTable
              filterLabel="Filter images"
              label="Images"
              columns={columns}
              rows={data}
              rowId={(image) => image.name}
              minWidth={900}
            >
              {manages ? <PrefetchList /> : null}
            </PageTable>
          )
        }
      </QueryState>
      {editing ? (
        <ImageForm
          key={editing.name}
          image={editing}
          admin={admin}
          managed={managed}
          onClose={() => setEditing(null)}
        />
      ) : null}
      {bringing ? (
        <PrefetchDialog image={bringing} admin={admin} onClose={() => setBringing(null)} />
      ) : null}
    </>
  );
}

interface Rights {
  admin: boolean;
  /** Virtual clusters that the reader is a VC admin of. */
  managed: string[];
  onEdit: (image: Image) => void;
  onPrefetch: (image: Image) => void;
}

function imageColumns({ admin, managed, onEdit, onPrefetch }: Rights): Column<Image>[] {
  const columns: Column<Image>[] = [
    {
      id: "name",
      header: "Name",
      width: "minmax(80px, 1fr)",
      cell: (image) => <b className={css.strong}>{image.name}</b>,
      sortValue: (image) => image.name,
    },
    {
      id: "reference",
      header: "Reference",
      width: "minmax(120px, 2fr)",
      cell: (image) => <code>{image.reference}</code>,
      sortValue: (image) => image.reference,
    },
    {
      id: "contents",
      header: "Contents",
      width: "minmax(150px, 1.6fr)",
      optional: "phone",
      cell: (image) => {
        const problem = driverProblem(image);
        return (
          <span title={problem || contentsOf(image)} className={problem ? css.failed : undefined}>
            {contentsOf(image)}
          </span>
        );
      },
      sortValue: contentsOf,
    },
    {
      id: "size",
      header: "Size",
      width: "100px",
      align: "end",
      optional: "phone",
      cell: (image) => <SizeCell image={image} />,
      sortValue: (image) => image.size ?? 0,
    },
    {
      id: "description",
      header: "Description",
      width: "minmax(140px, 1.5fr)",
      optional: "phone",
      cell: (image) => (
        <span className="dim" title={image.description}>
          {image.description}
        </span>
      ),
      exportValue: (image) => image.description,
    },
    {
      id: "virtual_clusters",
      header: "For",
      width: "minmax(120px, 1fr)",
      optional: "phone",
      cell: forWhom,
      sortValue: forWhom,
    },
    {
      id: "nodes",
      header: "On nodes",
      width: "84px",
      align: "end",
      optional: "phone",
      cell: (image) => <HoldingNodes image={image} />,
      sortValue: (image) => image.nodes,
    },
  ];
  if (!admin && managed.length === 0) return columns;
  return [
    ...columns,
    {
      id: "actions",
      header: "Change",
      hiddenHeader: true,
      width: "124px",
      align: "end",
      cell: (image) => (
        <span className={css.actions}>
          <ActionIcon
            size="sm"
            aria-label={`Prefetch ${image.name}`}
            title="Pull it to nodes now"
            onClick={() => onPrefetch(image)}
          >
            <Icon name="download" size={14} />
          </ActionIcon>
          {admin || managed.includes(image.managed_by) ? (
            <ImageActions image={image} onEdit={() => onEdit(image)} />
          ) : null}
        </span>
      ),
    },
  ];
}

const forWhom = (image: Image) => image.virtual_clusters.join(", ") || "everyone";

/** How many nodes hold it; their names on request. */
function HoldingNodes({ image }: { image: Image }) {
  const [asked, setAsked] = useState(false);
  const query = useQuery({ ...imageNodes(image.name), enabled: asked && image.nodes > 0 });
  if (image.nodes === 0) return <span className="dim">–</span>;
  const names = query.data?.map(({ node }) => node).slice(0, 40);
  return (
    <Tooltip
      label={names?.join(", ") ?? unreadText(query, "list of nodes") ?? "Reading…"}
      events={{ hover: true, focus: true, touch: true }}
      multiline
      maw={360}
    >
      <button
        type="button"
        className={css.shown}
        aria-label={`Nodes that hold ${image.name}: ${image.nodes}`}
        onMouseEnter={() => setAsked(true)}
        onFocus={() => setAsked(true)}
        onClick={() => setAsked(true)}
      >
        <span className="num">{image.nodes}</span>
      </button>
    </Tooltip>
  );
}

function SizeCell({ image }: { image: Image }) {
  if (image.size === null) {
    return (
      <span className="dim" title={image.problem}>
        {image.problem ? "not known" : "not asked yet"}
      </span>
    );
  }
  const title = `${image.digest}, compressed, as its registry says`;
  return <span title={title}>{formatBytes(image.size)}</span>;
}

function ImageActions({ image, onEdit }: { image: Image; onEdit: () => void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteImage(image.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: images.queryKey }),
    onError: (error) => notifyError(error, "The image was not deleted"),
  });
  const inspection = useMutation({
    mutationFn: () => inspectImage(image.name),
    onSuccess: (found) => {
      if (found.problem) notifyError(new Error(found.problem), "The registry said nothing");
      return queries.invalidateQueries({ queryKey: images.queryKey });
    },
    onError: (error) => notifyError(error, "The registry was not asked"),
  });
  return (
    <span className={css.actions}>
      <ActionIcon
        size="sm"
        aria-label={`Ask the registry about ${image.name}`}
        title="Ask its registry for size and digest"
        loading={inspection.isPending}
        onClick={() => inspection.mutate()}
      >
        <Icon name="search" size={14} />
      </ActionIcon>
      <ActionIcon size="sm" aria-label={`Edit ${image.name}`} onClick={onEdit}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <DeleteIcon
        size="sm"
        label={`Delete ${image.name}`}
        question={`Delete ${image.name}?`}
        explanation="Job files that use this name are refused from then on. The image itself stays where it is."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
      />
    </span>
  );
}

interface FormProps {
  image: ImageBody;
  admin: boolean;
  managed: string[];
  onClose: () => void;
}

/** A new image when it has no name yet, else a change of this one. */
function ImageForm({ image, admin, managed, onClose }: FormProps) {
  const queries = useQueryClient();
  const vcsQuery = useQuery(virtualClusters);
  const { data: vcs } = vcsQuery;
  const { name, reference, description, framework, cuda_version, min_driver } = image;
  const { virtual_clusters = [], managed_by = "" } = image;
  const [draft, setDraft] = useState({
    ...{ name, reference, description, framework, cuda_version, min_driver },
    virtual_clusters,
  });
  const [manager, setManager] = useState(managed_by);
  const known = name !== "";
  const saving = useMutation({
    mutationFn: () => {
      const { name: fresh, virtual_clusters: chosen, ...details } = draft;
      // The one of a virtual cluster is for it alone.
      const change = manager ? details : { ...details, virtual_clusters: chosen };
      if (known) return updateImage(name, change);
      return createImage({ name: fresh, ...change, ...(manager && { managed_by: manager }) });
    },
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: images.queryKey });
    },
  });
  const text = (field: Exclude<keyof typeof draft, "virtual_clusters">) => ({
    value: draft[field],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      setDraft({ ...draft, [field]: event.currentTarget.value }),
  });
  return (
    <FormDialog
      open
      title={known ? `Edit ${name}` : "Add an image"}
      verb={known ? "Save" : "Add"}
      mutation={saving}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description={
          manager && !admin
            ? `Begins with ${manager}-; what job files write as the uri`
            : "What job files write as the uri"
        }
        required
        withAsterisk={false}
        disabled={known}
        {...text("name")}
      />
      <TextInput
        label="Reference"
        description="What the nodes pull, for example pytorch/pytorch:2.9"
        required
        withAsterisk={false}
        {...text("reference")}
      />
      <TextInput label="Description" {...text("description")} />
      <TextInput
        label="Framework"
        placeholder="PyTorch 2.9"
        description="Framework and CUDA version are taken from the image where it says them"
        {...text("framework")}
      />
      <TextInput label="CUDA version" placeholder="12.8" {...text("cuda_version")} />
      <TextInput
        label="Least NVIDIA driver"
        placeholder="570.26"
        description="Jobs are refused where no node with their GPUs has it"
        {...text("min_driver")}
      />
      {known ? null : (
        <Select
          label="Managed by"
          description="Whose VC admins may change it; it is then for this virtual cluster alone"
          data={[
            ...(admin ? [{ value: "", label: "admins" }] : []),
            ...(admin ? (vcs ?? []).map((vc) => vc.name) : managed).map((value) => ({
              value,
              label: value,
            })),
          ]}
          value={manager}
          onChange={(value) => setManager(value ?? "")}
          allowDeselect={false}
        />
      )}
      {manager ? null : (
        <MultiSelect
          label="Virtual clusters"
          description="None chosen: available to everyone"
          data={(vcs ?? []).map((vc) => vc.name)}
          error={unreadText(vcsQuery, "list of virtual clusters")}
          value={draft.virtual_clusters}
          onChange={(chosen) => setDraft({ ...draft, virtual_clusters: chosen })}
          clearable
        />
      )}
    </FormDialog>
  );
}
