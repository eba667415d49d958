import { Button, type ButtonProps } from "@mantine/core";
import type { App } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";

/** Opens an app in a tab of its own; a shell is the terminal of its job's page. */
export function OpenAppButton({
  app,
  label,
  ...props
}: { app: App; label?: string } & ButtonProps) {
  const name = `Open ${app.name} of ${app.job_name}`;
  if (app.type === "shell") {
    return (
      <LinkButton
        to="/jobs/$id"
        params={{ id: app.job_id }}
        search={{ tab: "terminal" }}
        aria-label={name}
        {...props}
      >
        {label ?? "Open"}
      </LinkButton>
    );
  }
  return (
    <Button
      component="a"
      href={`/apps/${app.id}`}
      target="_blank"
      rel="noopener"
      aria-label={name}
      leftSection={<Icon name="screen" size={14} />}
      {...props}
    >
      {label ?? "Open"}
    </Button>
  );
}
