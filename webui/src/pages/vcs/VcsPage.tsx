export function VcsPage() { return <p>VcsPage</p>; }
