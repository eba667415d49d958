import { ActionIcon, Menu, Tooltip } from "@mantine/core";
import { rawLog, wholeLog, type LogFilter } from "@/api/logs";
import type { Job, Stream, Task } from "@/api/types";
import { taskName } from "@/format/names";
import { Icon } from "@/ui/Icon";

const STREAMS: Stream[] = ["stdout", "stderr"];
const SHOWN = 50;

interface Props {
  job: Job;
  tasks: Task[];
  filter: LogFilter;
}

/** What is shown as one file, and the streams of each task as the node wrote them. */
export function DownloadMenu({ job, tasks, filter }: Props) {
  const { rank, attempt } = filter;
  const started = tasks.filter(
    (task) =>
      task.attempt &&
      (rank === undefined || task.rank === rank) &&
      (attempt === undefined || task.attempt.index === attempt),
  );
  return (
    <Menu position="bottom-end" width={220}>
      <Tooltip label="Download whole logs">
        <Menu.Target>
          <ActionIcon aria-label="Download whole logs" disabled={job.attempt === 0}>
            <Icon name="download" />
          </ActionIcon>
        </Menu.Target>
      </Tooltip>
      <Menu.Dropdown mah={360} style={{ overflowY: "auto" }}>
        <Menu.Item component="a" href={wholeLog(job.id, filter)} download={`${job.name}.log`}>
          All of it <span className="dim">{partWords(filter)}</span>
        </Menu.Item>
        <Menu.Divider />
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

function partWords({ rank, attempt, stream }: LogFilter): string {
  const whose = rank === undefined ? "every task" : "this task";
  const when = attempt === undefined ? "" : `, attempt ${attempt}`;
  return `of ${whose}${when}, ${stream ?? "both streams"}`;
}
