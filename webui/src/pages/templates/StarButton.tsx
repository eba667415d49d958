import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { starTemplate, template as templateQuery, type TemplateSummary } from "@/api/templates";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import css from "./templates.module.css";

/** How many users starred a template, and the star of this one. */
export function StarButton({ template }: { template: TemplateSummary }) {
  const queries = useQueryClient();
  const starring = useMutation({
    mutationFn: () => starTemplate(template.name, !template.starred),
    onSuccess: (changed) => {
      queries.setQueryData(templateQuery(template.name).queryKey, changed);
      return queries.invalidateQueries({ queryKey: ["templates"] });
    },
    onError: (error) => notifyError(error),
  });
  const verb = template.starred ? "Take back the star of" : "Star";
  return (
    <Button
      variant="default"
      size="compact-sm"
      aria-pressed={template.starred}
      aria-label={`${verb} ${template.name}: ${template.stars} stars`}
      className={css.star}
      loading={starring.isPending}
      leftSection={<Icon name="star" size={14} />}
      onClick={() => starring.mutate()}
    >
      <span className="num">{template.stars.toLocaleString("en")}</span>
    </Button>
  );
}
