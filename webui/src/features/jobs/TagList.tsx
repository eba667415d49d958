import { Link } from "@tanstack/react-router";
import css from "./TagList.module.css";

/** Each leads to the jobs that have it. */
export function TagList({ tags, most = tags.length }: { tags: string[]; most?: number }) {
  if (tags.length === 0) return null;
  const more = tags.slice(most);
  return (
    <span className={css.tags}>
      {tags.slice(0, most).map((tag) => (
        <Link key={tag} to="/jobs" search={{ tag }} className={css.tag} title={`Jobs with ${tag}`}>
          {tag}
        </Link>
      ))}
      {more.length > 0 ? (
        <span className={css.more} title={more.join(", ")}>
          +{more.length}
        </span>
      ) : null}
    </span>
  );
}
