import { ActionIcon, Menu, Tooltip } from "@mantine/core";
import { rawLog } from "@/api/logs";
import type { Stream, Task } from "@/api/types";
import { taskName } from "@/format/names";
import { Icon } from "@/ui/Icon";

const STREAMS: Stream[] = ["stdout", "stderr"];
const SHOWN = 50;

/** Whole streams as files. Each task's is a file of its own, as the node wrote it. */
export function DownloadMenu({ tasks, rank }: { tasks: Task[]; rank?: number }) {
  const started = tasks.filter(
    (task) => task.attempt && (rank === undefined || task.rank === rank),
  );
  return (
    <Menu position="bottom-end" width={220}>
      <Tooltip label="Download whole logs">
        <Menu.Target>
          <ActionIcon aria-label="Download whole logs" disabled={started.length === 0}>
            <Icon name="download" />
          </ActionIcon>
        </Menu.Target>
      </Tooltip>
      <Menu.Dropdown mah={360} style={{ overflowY: "auto" }}>
        {started.slice(0, SHOWN).flatMap((task) =>
          STREAMS.map((stream) => (
            <Menu.Item
              key={`${task.id} ${stream}`}
              component="a"
              href={rawLog(task.attempt?.id ?? "", stream)}
              download={`${taskName(task)}.${stream}.log`}
            >
              {taskName(task)} <span className="dim">{stream}</span>
            </Menu.Item>
          )),
        )}
        {started.length > SHOWN ? (
          <Menu.Label>Choose a task to download one of the others</Menu.Label>
        ) : null}
      </Menu.Dropdown>
    </Menu>
  );
}
