import { Button } from "@mantine/core";
import { fileAddress } from "@/api/exports";
import { Icon } from "./Icon";

interface Props {
  /** Path of the list below /api/v1/. */
  list: string;
  /** What the page shows of it; without one the whole list. */
  filter?: object;
}

/** Downloads all rows of a list, not only those of the page that is shown. */
export function ExportButton({ list, filter = {} }: Props) {
  return (
    <Button
      component="a"
      href={fileAddress(list, filter)}
      download
      variant="default"
      leftSection={<Icon name="download" size={14} />}
    >
      Export CSV
    </Button>
  );
}
