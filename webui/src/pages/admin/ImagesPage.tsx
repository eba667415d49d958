import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { images } from "@/api/admin";
import { me } from "@/api/session";
import type { Image, ImageBody } from "@/api/types";
import { Blank, Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { ImageActions } from "./ImageActions";
import { ImageForm } from "./ImageForm";
import css from "./admin.module.css";

const NEW: ImageBody = { name: "", reference: "", description: "", virtual_clusters: [] };

export function ImagesPage() {
  const { data: user } = useQuery(me);
  const list = useQuery(images);
  const [editing, setEditing] = useState<ImageBody | null>(null);
  const admin = user?.is_admin ?? false;
  const columns = useMemo(() => imageColumns(admin, setEditing), [admin]);
  return (
    <>
      <PageHeader title="Images" note="Names that job files may use instead of a reference">
        {admin ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setEditing(NEW)}
          >
            Add an image
          </Button>
        ) : null}
      </PageHeader>
      {list.isPending ? <SkeletonRows /> : null}
      {list.isError && !list.data ? (
        <Failure error={list.error} what="list of images" retry={() => void list.refetch()} />
      ) : null}
      {list.data?.length === 0 ? (
        <Blank title="No images yet">
          Job files can name any image that the nodes can pull. Images added here get a short name.
        </Blank>
      ) : null}
      {list.data && list.data.length > 0 ? (
        <div className={css.list}>
          <DataTable
            label="Images"
            columns={columns}
            rows={list.data}
            rowId={(image) => image.name}
            minWidth={760}
          />
        </div>
      ) : null}
      {editing ? (
        <ImageForm key={editing.name} image={editing} onClose={() => setEditing(null)} />
      ) : null}
    </>
  );
}

function imageColumns(admin: boolean, onEdit: (image: Image) => void): Column<Image>[] {
  const columns: Column<Image>[] = [
    {
      id: "name",
      header: "Name",
      width: "minmax(120px, 1fr)",
      cell: (image) => <b className={css.strong}>{image.name}</b>,
      sort: (image) => image.name,
    },
    {
      id: "reference",
      header: "Reference",
      width: "minmax(220px, 2fr)",
      cell: (image) => <code>{image.reference}</code>,
      sort: (image) => image.reference,
    },
    {
      id: "description",
      header: "Description",
      width: "minmax(140px, 1.5fr)",
      cell: (image) => <span className="dim">{image.description}</span>,
    },
    {
      id: "virtual_clusters",
      header: "For",
      width: "minmax(120px, 1fr)",
      cell: (image) => image.virtual_clusters.join(", ") || "everybody",
    },
  ];
  if (!admin) return columns;
  return [
    ...columns,
    {
      id: "actions",
      header: "Change",
      quiet: true,
      width: "68px",
      align: "end",
      cell: (image) => <ImageActions image={image} onEdit={() => onEdit(image)} />,
    },
  ];
}
