import { ActionIcon, Menu } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cells as cellsQuery, deleteLayout, HIVED_FILE_URL } from "@/api/cells";
import type { Cells } from "@/api/types";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { notifySuccess, notifyError } from "@/ui/notify";
import { ImportDialog } from "./ImportDialog";

/** The HiveD file: out, in, and back to what the nodes report. */
export function HivedMenu({ cells, changed }: { cells: Cells; changed: boolean }) {
  const [open, setOpen] = useState<"import" | "drop" | null>(null);
  const queries = useQueryClient();
  const dropping = useMutation({
    mutationFn: deleteLayout,
    onSuccess: () => {
      notifySuccess("The cells are as the nodes report them");
      return queries.invalidateQueries({ queryKey: cellsQuery.queryKey });
    },
    onError: (error) => notifyError(error, "The file is still in use"),
  });
  const close = () => setOpen(null);
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label="HiveD file">
            <Icon name="more" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            component="a"
            href={HIVED_FILE_URL}
            download="hivedscheduler.yaml"
            leftSection={<Icon name="download" size={14} />}
          >
            Export as a HiveD file
          </Menu.Item>
          <Menu.Item
            disabled={changed}
            leftSection={<Icon name="upload" size={14} />}
            onClick={() => setOpen("import")}
          >
            Import a HiveD file
          </Menu.Item>
          {cells.source === "file" ? (
            <Menu.Item
              disabled={changed}
              leftSection={<Icon name="undo" size={14} />}
              onClick={() => setOpen("drop")}
            >
              Back to what the nodes report
            </Menu.Item>
          ) : null}
        </Menu.Dropdown>
      </Menu>
      <ImportDialog open={open === "import"} onClose={close} />
      <Confirm
        open={open === "drop"}
        question="Forget the HiveD file?"
        explanation="The cells are then made of what the nodes report. Claims on types that only the file has stay, and get nothing until they are changed."
        verb="Forget it"
        onConfirm={() => dropping.mutate()}
        onClose={close}
      />
    </>
  );
}
