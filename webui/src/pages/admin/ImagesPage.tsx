export function ImagesPage() { return <p>ImagesPage</p>; }
