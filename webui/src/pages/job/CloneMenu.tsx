import { Button, Menu } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { clone } from "@/api/jobs";
import type { Job } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { tellDone, tellError } from "@/ui/notify";

/** Runs a job once more: as it is, with the secrets and files it was submitted with, or changed
 * in the editor. */
export function CloneMenu({ job, mine }: { job: Job; mine: boolean }) {
  const cloning = useClone(job);
  return (
    <Menu position="bottom-end" width={300}>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<Icon name="clone" size={14} />}
          rightSection={<Icon name="down" size={12} />}
          loading={cloning.isPending}
        >
          Clone
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {mine ? (
          <Menu.Item onClick={() => cloning.mutate()}>
            Run it again as it is
            <br />
            <span className="dim">With its secrets and working files, under a new name.</span>
          </Menu.Item>
        ) : null}
        <Menu.Item
          renderRoot={(props) => <Link to="/jobs/new" search={{ from: job.id }} {...props} />}
        >
          Edit and submit
          <br />
          <span className="dim">Opens its job file; secrets have to be typed again.</span>
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function useClone(job: Job) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => clone(job.id),
    onSuccess: async (copy) => {
      queries.setQueryData(["job", copy.id], copy);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      tellDone(`${copy.name} is submitted`);
      await navigate({ to: "/jobs/$id", params: { id: copy.id } });
    },
    onError: (error) => tellError(error, "The job was not cloned"),
  });
}
