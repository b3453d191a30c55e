from rag.parse.slices import Begun, Done, Progress, Slice


def test_a_slice_of_several_pages_is_tried_again_and_a_page_that_fails_alone_is_lost() -> None:
    progress = Progress()
    progress.note(Begun(Slice("read", 0, 2), 1.0))
    progress.note(Done(Slice("read", 0, 2), b"found", {2: "damaged"}))
    assert not progress.outlives("crashed between two slices")
    progress.note(Begun(Slice("lay", 0, 2), 1.0))
    assert progress.outlives("crashed")  # also where a page of the slice was lost before
    assert (progress.found, progress.lost, progress.is_careful) == ({("read", 0): b"found"}, {2: "damaged"}, True)
    progress.note(Begun(Slice("lay", 0, 1), 1.0))
    assert progress.outlives("crashed")
    assert progress.lost == {1: "crashed", 2: "damaged"}
    progress.note(Begun(Slice("lay", 0, 1), 1.0))
    assert not progress.outlives("crashed without touching the page")
